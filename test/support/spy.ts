import pg from 'pg';
import * as scryptKdf from 'scrypt-kdf';
import type { Test } from 'tap';

// See scrypt-hasher.ts: the package's types describe its default export wrongly.
const Scrypt = (scryptKdf as unknown as { default: Record<'kdf' | 'verify', Work> }).default;

type Work = (...args: never[]) => unknown;

/** The service checks its signing keys at intervals, and a check may happen during the work. */
const BACKGROUND = /\bsigning_keys\b/;

/** The SQL statements and hash costs of `work`, without values. */
export async function workDone(t: Test, work: () => Promise<unknown>): Promise<string[]> {
  const done: string[] = [];
  const note = (step: string) => {
    done.push(step);
  };
  const calls = [
    spy(Scrypt, 'verify', (hash: Uint8Array) => {
      note(`verify a hash of ${costOf(hash)}`);
    }),
    spy(Scrypt, 'kdf', (_password: string, cost: object) => {
      note(`hash at ${Object.values(cost).join('/')}`);
    }),
    spy(
      pg.Client.prototype as unknown as Record<'query', Work>,
      'query',
      (query: string | { text: string }) => {
        const text = typeof query === 'string' ? query : query.text;
        if (!BACKGROUND.test(text)) note(text);
      },
    ),
  ];
  t.teardown(() => {
    for (const restore of calls) restore();
  });
  await work();
  for (const restore of calls) restore();
  return done;
}

/** The passwords that are checked or hashed from now on, in the order in which that begins. */
export function hashedPasswords(t: Test): string[] {
  const passwords: string[] = [];
  const calls = [
    spy(Scrypt, 'verify', (_hash: unknown, password: string) => passwords.push(password)),
    spy(Scrypt, 'kdf', (password: string) => passwords.push(password)),
  ];
  t.teardown(() => {
    for (const restore of calls) restore();
  });
  return passwords;
}

function spy<Name extends string>(
  target: Record<Name, Work>,
  name: Name,
  note: (...args: never[]) => void,
): () => void {
  const original = target[name];
  target[name] = function (this: unknown, ...args: never[]) {
    note(...args);
    return original.apply(this, args);
  };
  return () => {
    target[name] = original;
  };
}

/** scrypt's header holds logN, r and p at fixed positions. */
function costOf(hash: Uint8Array): string {
  const header = Buffer.from(hash);
  return [header.readUInt8(7), header.readUInt32BE(8), header.readUInt32BE(12)].join('/');
}
