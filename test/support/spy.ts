import pg from 'pg';
import * as scryptKdf from 'scrypt-kdf';
import type { Test } from 'tap';

// See scrypt-hasher.ts: the package's types are wrong about its default export.
const Scrypt = (scryptKdf as unknown as { default: Record<'kdf' | 'verify', Work> }).default;

type Work = (...args: never[]) => unknown;

/** What was asked of PostgreSQL, and what was hashed, while `work` ran: statements and costs, no values. */
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
        note(typeof query === 'string' ? query : query.text);
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

/** scrypt's own header: logN, r and p stand at fixed places. */
function costOf(hash: Uint8Array): string {
  const header = Buffer.from(hash);
  return [header.readUInt8(7), header.readUInt32BE(8), header.readUInt32BE(12)].join('/');
}
