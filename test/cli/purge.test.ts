import { test } from 'tap';
import { initialState } from '../../src/domain/sessions/rotation.ts';
import { latchkey } from '../support/latchkey.ts';
import { testDatabase } from '../support/postgres.ts';
import { testRecords } from '../support/records.ts';

test('purge says how many records went', async (t) => {
  const { url } = await testDatabase(t);
  t.match(await latchkey(['purge'], { DATABASE_URL: url }), { code: 0, stdout: 'purged 0 records\n' });
  t.strictSame(JSON.parse((await latchkey(['purge', '--json'], { DATABASE_URL: url })).stdout), {
    purged: 0,
  });
});

test('purge keeps for 30 days what has ended, however short a lifetime is', async (t) => {
  const { url: DATABASE_URL, aSession, tokens } = await testRecords(t);
  const unusedFor = (days: number, hours = 0) =>
    aSession(initialState((Date.now() - days * 86_400_000 - hours * 3_600_000) * 1000, ''));
  const kept = [await unusedFor(30), await unusedFor(0, 3)];
  const gone = [await unusedFor(30, 2), await unusedFor(59)];
  const purged = await latchkey(['purge', '--json'], { DATABASE_URL, REFRESH_TOKEN_TTL: '3600' });
  t.strictSame(JSON.parse(purged.stdout), { purged: 2 });
  for (const { tokenId } of kept) t.not(await tokens.find(tokenId), null);
  for (const { tokenId } of gone) t.equal(await tokens.find(tokenId), null);
  const long = await unusedFor(79);
  const TTL = String(40 * 86_400);
  t.match(await latchkey(['purge'], { DATABASE_URL, REFRESH_TOKEN_TTL: TTL }), {
    stdout: 'purged 0 records\n',
  });
  t.not(await tokens.find(long.tokenId), null, 'two lifetimes, where that is longer');
});
