import { test } from 'tap';
import { makeUserStore } from '../../../src/infra/postgres/user-store.ts';
import { openPostgres } from '../../support/open-postgres.ts';
import { testDatabase } from '../../support/postgres.ts';
import { sql } from '../../support/sql.ts';

/** scrypt-kdf's layout: the first 16 bytes hold the parameters. */
function aHash(logN: number, fill: number): Buffer {
  const hash = Buffer.alloc(96, fill);
  hash.write('scrypt\0');
  hash.writeUInt8(logN, 7);
  hash.writeUInt32BE(8, 8);
  hash.writeUInt32BE(1, 12);
  return hash;
}

test('a page of stored hashes shows one of each cost, and the scan ends', async (t) => {
  const { url } = await testDatabase(t);
  const postgres = openPostgres(t, { url });
  const costs = [14, 17, 14, 17, 17, 15];
  for (const [i, logN] of costs.entries()) {
    const values = [`user${i}`, `user${i}@example.com`, aHash(logN, i)];
    await sql(
      url,
      "INSERT INTO users (username, username_skeleton, email, name, password_hash) VALUES ($1, $1, $2, 'Ada', $3)",
      values,
    );
  }
  const store = makeUserStore(postgres);
  const page = async (after: number, count: number) =>
    (await store.sampleHashes(after, count))
      .map(({ userId, passwordHash }) => [userId, passwordHash[7], passwordHash.length] as const)
      .sort(([a], [b]) => a - b);
  t.strictSame(await page(0, 5), [
    [3, 14, 96],
    [5, 17, 96],
  ]);
  t.strictSame(await page(5, 5), [[6, 15, 96]]);
  t.strictSame(await page(6, 5), []);
});

test('an unreachable database is an outage', async (t) => {
  const postgres = openPostgres(t, { url: 'postgres://unknown@127.0.0.1:1/none', timeout: 1000 });
  await t.rejects(makeUserStore(postgres).sampleHashes(0, 1), { code: 'unavailable' });
});
