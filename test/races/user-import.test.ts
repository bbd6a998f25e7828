import { test } from 'tap';
import type { ImportedUser } from '../../src/domain/users/import-line.ts';
import { makeSecretBox } from '../../src/infra/crypto/factor-keys.ts';
import { beginImport, importBatch } from '../../src/infra/postgres/user-imports.ts';
import { aClient, begun } from '../support/begun.ts';
import { openPostgres } from '../support/open-postgres.ts';
import { testDatabase } from '../support/postgres.ts';
import { sql } from '../support/sql.ts';

const aUser = (username: string): ImportedUser => ({
  username,
  name: 'Ada',
  email: `${username}@example.com`,
  externalId: 'crm-7',
  hash: { passwordHash: new Uint8Array(96) },
  createdAt: null,
  roles: [],
  disabled: false,
  emailVerified: false,
  locale: null,
  totpSecret: null,
});

const noKey = makeSecretBox([]);

test('of two imports with one external id, the second refuses its line', async (t) => {
  const { url } = await testDatabase(t);
  const postgres = openPostgres(t, { url, pool: 3 });
  const [locks, watch] = [await aClient(t, url), await aClient(t, url)];
  const imports = await Promise.all(
    ['ada', 'bob'].map(async (username, file) => {
      const hash = new Uint8Array(32).fill(file);
      await beginImport(postgres.prisma, hash);
      const batch = { doneBefore: 0, last: 1, users: [{ line: 1, user: aUser(username) }], refused: [] };
      return begun(() => importBatch(postgres.prisma, hash, batch, () => [], noKey));
    }),
  );
  const [first, second] = imports as [(typeof imports)[0], (typeof imports)[0]];
  // The first has its row by then, and has not committed.
  await locks.query('BEGIN');
  await locks.query('LOCK TABLE refused_import_lines');
  await first.begin(watch);
  await second.begin(watch, 2);
  t.strictSame([first.isDone(), second.isDone()], [false, false], 'the second waits for the first');
  await locks.query('COMMIT');
  t.strictSame(await first.result(), []);
  t.match(await second.result(), [{ line: 1, problem: /^external_id is taken/ }]);
  t.strictSame(await sql(url, 'SELECT username, external_id FROM users'), [
    { username: 'ada', external_id: 'crm-7' },
  ]);
});
