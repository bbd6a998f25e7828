// Reads a test file's output (TAP 14): the number of assertions, the names of passed tests, and the skipped tests with
// their reasons.

/** @returns {{ counts: { total: number, pass: number, fail: number, skip: number, todo: number } | null, passed: string[], leftOut: { file: string, name: string, reason: string }[] }} */
export function readTap(text, file) {
  let counts = null;
  let inDiagnostics = false;
  const leftOut = [];
  const passed = [];
  // The open test by its indentation. A result of another name is an assertion.
  const open = new Map();
  for (const line of text.split('\n')) {
    // A diagnostic block quotes source and values, which can look like results.
    if (/^ *---$/.test(line)) inDiagnostics = true;
    else if (/^ *\.\.\.$/.test(line)) inDiagnostics = false;
    if (inDiagnostics) continue;

    const summary = /^# \{ (.+) \}$/.exec(line);
    if (summary) counts = readCounts(summary[1]);
    const skip = /^ *ok \d+(?: - (.*?))? # SKIP ?(.*)$/i.exec(line);
    if (skip) leftOut.push({ file, name: unescape(skip[1] ?? ''), reason: unescape(skip[2]) });
    const [, begun, name] = /^( *)# Subtest: (.*)$/.exec(line) ?? [];
    if (name !== undefined) open.set(begun, name);
    const [, indent, done, , directive = ''] = /^( *)ok \d+ - (.*?)( # (.*))?$/.exec(line) ?? [];
    if (done !== undefined && open.get(indent) === done && !/^(skip|todo)/i.test(directive))
      passed.push(unescape(done));
  }
  return { counts, passed, leftOut };
}

/** The summary of a run; its last line is `N passed, N failed, N skipped`. */
export function closingLines(results) {
  const sum = (name) => results.reduce((total, { counts }) => total + counts[name], 0);
  const byReason = new Map();
  for (const { file, name, reason } of results.flatMap(({ leftOut }) => leftOut)) {
    const key = reason || 'no reason given';
    byReason.set(key, [...(byReason.get(key) ?? []), `${shortName(file)}: ${name}`]);
  }
  const lines = [...byReason].flatMap(([reason, names]) => [
    `left out, ${reason}:`,
    ...names.map((name) => `  - ${name}`),
  ]);
  return [...lines, `${sum('pass')} passed, ${sum('fail')} failed, ${sum('skip')} skipped`];
}

/** The short report of an ended file: its own line, a line per problem, and every failure with its diagnostics. */
export function briefly({ file, output, seconds, problem }) {
  const name = `${problem === null ? 'ok' : 'not ok'} - ${file}`;
  const outcome = problem === null ? '' : `: ${problem}`;
  const isWorthShowing = makeBriefly();
  return [`${name} # ${seconds.toFixed(1)} s${outcome}`, ...output.split('\n').filter(isWorthShowing)];
}

function makeBriefly() {
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
    return afterFailure || /^ *# fault: /.test(line);
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
