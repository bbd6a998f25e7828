// Reads what tap wrote (TAP 14): how many assertions there were, and which tests were left out and why.

/** @returns {{ counts: { total: number, pass: number, fail: number, skip: number, todo: number } | null, leftOut: { file: string, name: string, reason: string }[] }} */
export function readTap(text) {
  let counts = null;
  let file = '';
  let inDiagnostics = false;
  const leftOut = [];
  for (const line of text.split('\n')) {
    // A diagnostic block quotes source and values, which may look like results.
    if (/^ *---$/.test(line)) inDiagnostics = true;
    else if (/^ *\.\.\.$/.test(line)) inDiagnostics = false;
    if (inDiagnostics) continue;

    const summary = /^# \{ (.+) \}$/.exec(line);
    if (summary) counts = readCounts(summary[1]);
    const subtest = /^# Subtest: (.+)$/.exec(line);
    if (subtest) file = subtest[1];
    const skip = /^ *ok \d+(?: - (.*?))? # SKIP ?(.*)$/i.exec(line);
    if (skip) leftOut.push({ file, name: unescape(skip[1] ?? ''), reason: unescape(skip[2]) });
  }
  return { counts, leftOut };
}

/** What the run comes down to; the last line is `N passed, N failed, N skipped`. */
export function closingLines({ counts, leftOut }) {
  if (counts === null) return ['tap wrote no summary: it did not finish', '0 passed, 1 failed'];
  const byReason = new Map();
  for (const { file, name, reason } of leftOut) {
    const key = reason || 'no reason given';
    byReason.set(key, [...(byReason.get(key) ?? []), `${shortName(file)}: ${name}`]);
  }
  const lines = [...byReason].flatMap(([reason, names]) => [
    `left out, ${reason}:`,
    ...names.map((name) => `  - ${name}`),
  ]);
  return [...lines, `${counts.pass} passed, ${counts.fail} failed, ${counts.skip} skipped`];
}

/** Picks what is worth reading while tests run: a line a file, a line a fault, and every failure with its diagnostics. */
export function makeBriefly() {
  let depth = null;
  let afterFailure = false;
  return (line) => {
    if (depth !== null) {
      if (line === `${depth}...`) depth = null;
      return true;
    }
    if (afterFailure && /^ *---$/.test(line)) {
      depth = line.slice(0, -3);
      return true;
    }
    afterFailure = /^ *not ok /.test(line) && !/# (TODO|SKIP)/i.test(line);
    return afterFailure || /^ok \d+ - .*\.js/.test(line) || /^ *# fault: /.test(line);
  };
}

function readCounts(text) {
  const counts = { total: 0, pass: 0, fail: 0, skip: 0, todo: 0 };
  for (const [, name, value] of text.matchAll(/(\w+): (\d+)/g)) counts[name] = Number(value);
  return counts;
}

function shortName(file) {
  return file.replace(/^dist\/test\//, '').replace(/\.test\.js$/, '');
}

function unescape(text) {
  return text.replace(/\\([#\\])/g, '$1');
}
