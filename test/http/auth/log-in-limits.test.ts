import { buildTestApp, type TestApp } from '../../support/app.ts';
import { anAccount, claimsOf, logIn, pairOf, refresh, signUp, verify } from '../../support/client.ts';
import { refused } from '../../support/problem.ts';
import { sql } from '../../support/sql.ts';
import { onAStore } from '../../support/stores.ts';
import { until } from '../../support/until.ts';

onAStore('login with other limits', async (t, env) => {
  await t.test('replaces the least recently used session', async (t) => {
    const target = await buildTestApp(t, { env: { ...env, MAX_SESSIONS_PER_USER: '2' } });
    target.composition.start();
    const { username, ...account } = anAccount();
    const first = await signUp(target, { username, ...account });
    const second = await logIn(target, username);
    const used = pairOf(await refresh(target, first.refresh_token));
    // The record decides, and it learns of a rotation later (write-behind).
    const { sid, gen } = claimsOf(used.access_token);
    await until(async () => (await latestOf(target, sid)) === gen);
    await logIn(target, username);
    t.equal((await verify(target, used.access_token)).statusCode, 200);
    refused(t, await refresh(target, second.refresh_token), 401, 'invalid_token');
  });
});

async function latestOf({ databaseUrl }: TestApp, tokenId: unknown): Promise<number> {
  const rows = await sql<{ latest: string }>(databaseUrl, 'SELECT latest FROM tokens WHERE id = $1', [
    tokenId,
  ]);
  return Number(rows[0]?.latest);
}
