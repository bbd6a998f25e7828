/** The kinds of secrets that no log, metric or span may hold. */
export type Kind =
  | 'password'
  | 'e-mail address'
  | 'token'
  | 'client secret'
  | 'refresh secret'
  | 'database password'
  | 'private key'
  | 'second factor'
  | 'passkey'
  | 'factor key';

export interface Finding {
  kind: string;
  /** The line that holds it, with the secret masked. */
  line: string;
}

/** Shorter values match by chance. */
const MIN_LENGTH = 12;
/** Characters that a report shows on either side of a secret. */
const CONTEXT = 200;

/** The start message outside production suggests this account, which does not exist. */
const SAMPLE =
  /\{\\"username\\":\\"ada\\",\\"name\\":\\"Ada\\",\\"email\\":\\"ada@example\.com\\",\\"password\\":\\"difference engine no\. 2\\"\}/g;

/** Patterns of secrets, in lower case: they match even if the watch never saw the secret sent. */
const SHAPES: [kind: string, shape: RegExp][] = [
  ['token (by its looks)', /eyj[\w-]{8,}\.eyj[\w-]{8,}[\w.-]*/g],
  ['one-time token (by its looks)', /lk[rv]_[\w-]{43}/g],
  ['login token (by its looks)', /lkl_[\w-]{86}/g],
  ['recovery code (by its looks)', /\b[a-z2-7]{4}(?:-[a-z2-7]{4}){5}\b/g],
  ['totp secret (by its looks)', /otpauth:\/\/|\bsecret=[a-z2-7]{16}/g],
  ['e-mail address (by its looks)', /[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}/g],
  ['password of a URL (by its looks)', /:\/\/[^\s/:@"]*:[^\s/@"]+@/g],
  ['private key (by its looks)', /begin [a-z ]*private key/g],
];

/** Remembers secrets, and finds them in a text in any encoding. */
export function makeNeedles() {
  /** By their first characters, in lower case. */
  const byStart = new Map<string, Map<string, Kind>>();
  /** Marks the first three characters of each, so that most positions in a text need no look-up. */
  const starts = new Uint8Array(1 << 16);
  const seen = new Set<string>();

  function remember(kind: Kind, value: string): void {
    if (seen.has(value) || value.trim().length < MIN_LENGTH) return;
    for (const form of formsOf(value)) {
      const needle = form.toLowerCase();
      if (needle.length < MIN_LENGTH) continue;
      seen.add(value);
      const start = needle.slice(0, MIN_LENGTH);
      const known = byStart.get(start) ?? new Map<string, Kind>();
      byStart.set(start, known.set(needle, kind));
      starts[mark(needle, 0)] = 1;
    }
  }

  function search(text: string): Finding[] {
    const haystack = text.replace(SAMPLE, '').toLowerCase();
    const hits = [...known(haystack), ...shaped(haystack)];
    return hits.map((hit) => ({ kind: hit.kind, line: maskedLine(haystack, hit, hits) }));
  }

  function known(haystack: string): Hit[] {
    const hits: Hit[] = [];
    for (let at = 0; at + MIN_LENGTH <= haystack.length; at++) {
      if (starts[mark(haystack, at)] === 0) continue;
      for (const [needle, kind] of byStart.get(haystack.slice(at, at + MIN_LENGTH)) ?? []) {
        if (haystack.startsWith(needle, at)) hits.push({ kind, at, length: needle.length });
      }
    }
    return hits;
  }

  return {
    remember,
    search,
    /** The number of known secrets. */
    count: () => seen.size,
  };
}

interface Hit {
  kind: string;
  at: number;
  length: number;
}

function shaped(haystack: string): Hit[] {
  return SHAPES.flatMap(([kind, shape]) =>
    Array.from(haystack.matchAll(shape), ({ index, 0: found }) => ({
      kind,
      at: index,
      length: found.length,
    })),
  );
}

/** As it is, and as JSON, a URL, a form or base64 would write it. */
function formsOf(value: string): Set<string> {
  const plain = [value, value.trim(), value.trim().normalize('NFC')];
  return new Set(
    plain.flatMap((each) => [
      each,
      JSON.stringify(each).slice(1, -1),
      encodeURIComponent(each.toWellFormed()),
      Buffer.from(each).toString('base64').replace(/=+$/, ''),
      Buffer.from(each).toString('base64url'),
    ]),
  );
}

function mark(text: string, at: number): number {
  const [a, b, c] = [text.charCodeAt(at), text.charCodeAt(at + 1), text.charCodeAt(at + 2)];
  return ((a * 31 + b) * 31 + c) & 0xffff;
}

/** The line of a hit, or the part of a long one that surrounds it, without any secret. */
function maskedLine(haystack: string, { at }: Hit, hits: Hit[]): string {
  const next = haystack.indexOf('\n', at);
  const start = Math.max(haystack.lastIndexOf('\n', at) + 1, at - CONTEXT);
  const end = Math.min(next === -1 ? haystack.length : next, at + CONTEXT);
  const touching = hits
    .filter((hit) => hit.at + hit.length > start && hit.at < end)
    .sort((a, b) => a.at - b.at);
  let [line, from] = ['', start];
  for (const hit of touching) {
    if (hit.at + hit.length <= from) continue;
    line += `${haystack.slice(from, Math.max(from, hit.at))}‹${hit.kind}›`;
    from = hit.at + hit.length;
  }
  return line + haystack.slice(from, Math.max(from, end));
}
