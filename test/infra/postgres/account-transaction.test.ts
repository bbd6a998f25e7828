import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import type { Prisma } from '../../../src/generated/prisma/client.ts';
import { lockUser } from '../../../src/infra/postgres/caller-lock.ts';
import { ROOT } from '../../support/documents.ts';

const FOLDER = join(ROOT, 'src/infra/postgres');
const ENTRIES = /\b(?:inLane|inLaneOf|withToken)\(/g;

/** What waits for rows of users or tokens, or writes there. What skips locked rows does not wait. */
const WAITS = [
  /\bFOR (?:NO KEY |KEY )?(?:UPDATE|SHARE)\b(?! (?:OF \w+ )?SKIP LOCKED)/g,
  /\b(?:UPDATE|DELETE FROM) (?:users|tokens)\b/g,
  /\.(?:user|token)\.(?:update|upsert|delete)\w*\(/g,
];

/** How often each file does so without a lane. */
const WITHOUT_LANE: Record<string, number> = {
  // The row that its own transaction has just added.
  'account-store.ts': 1,
  // A row waits for its key only while replicas of 1.0.0 run, and the first that gets its lock fills it in.
  'address-keys.ts': 2,
  // Of rows that it has locked, and skipped if they were not free.
  'ended-tokens.ts': 1,
  'revocation-store.ts': 1,
  'token-store.ts': 1,
  'purge.ts': 2,
  'changed-users.ts': 1,
  // A command, which runs alone.
  'recover.ts': 3,
  // The row of a service or of a file, by a command.
  'service-store.ts': 1,
  'user-imports.ts': 1,
  // Rows of readers and of their services, which belong to no account.
  'feed-readers.ts': 3,
  // Background tasks, each of which runs once at a time in a replica: write-behind, and the look-up of names that asked
  // for a reset.
  'state-writer.ts': 6,
  'wanted-mails.ts': 1,
};

/** The calls that enter a lane, each up to its closing parenthesis. */
function laneCalls(source: string): string[] {
  return [...source.matchAll(ENTRIES)].map(({ index }) => {
    let depth = 0;
    for (let at = source.indexOf('(', index); at < source.length; at++) {
      if (source[at] === '(') depth++;
      if (source[at] === ')' && --depth === 0) return source.slice(index, at + 1);
    }
    throw new Error(`a call without an end: ${source.slice(index, index + 80)}`);
  });
}

const sources = readdirSync(FOLDER)
  .filter((name) => name.endsWith('.ts'))
  .map((name) => ({
    name,
    source: readFileSync(join(FOLDER, name), 'utf8').replace(/^ *(?:\/?\*|\/\/).*/gm, ''),
  }));

test('what waits for an account’s rows does so in its lane, or is named here with the reason', (t) => {
  const found = Object.fromEntries(
    sources.flatMap(({ name, source }) => {
      const outside = source
        .split(/^(?=(?:export )?(?:async )?(?:function|const)\b)/m)
        .filter((part) => !/\btx: AccountTransaction\b/.test(part))
        .map((part) => laneCalls(part).reduce((rest, call) => rest.replace(call, ''), part))
        .join('');
      const count = WAITS.reduce((sum, pattern) => sum + [...outside.matchAll(pattern)].length, 0);
      return count > 0 ? [[name, count]] : [];
    }),
  );
  t.strictSame(found, WITHOUT_LANE);
  t.end();
});

test('what runs in a lane uses its transaction alone, so it waits for no other lane and no other connection', (t) => {
  const calls = sources.flatMap(({ name, source }) => laneCalls(source).map((call) => ({ name, call })));
  t.ok(calls.length > 15);
  for (const { name, call } of calls) {
    const work = call.slice(call.indexOf('=>') + 2);
    t.notMatch(work, /\b(?:prisma|postgres|pool|probe|run|inLane|inLaneOf|withToken)\b/, `${name}: ${call}`);
  }
  t.end();
});

// @ts-expect-error -- a transaction without a lane may not wait for the row of a user: then this file would not compile
export const waitsAnywhere = (tx: Prisma.TransactionClient) => lockUser(tx, 1);
