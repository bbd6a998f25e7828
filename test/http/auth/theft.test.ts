import type { Test } from 'tap';
import type { Environment } from '../../../src/config/config.ts';
import { buildTestApp } from '../../support/app.ts';
import { anAccount, call, claimsOf, logIn, pairOf, refresh, signUp } from '../../support/client.ts';
import { onEachLasting, type Lasting } from '../../support/lasting.ts';
import { refused } from '../../support/problem.ts';
import { sql } from '../../support/sql.ts';
import { onEachStore } from '../../support/stores.ts';

const THIEF = { 'user-agent': 'a thief' };

interface Listed {
  tokens: { id: number; created_by: number | null }[];
  ended: { id: number; reason: string; created_by: number | null }[];
}

/** An account with a long-lived token created by an earlier pair, and the pair that its owner uses. */
async function aWorld(t: Test, env: Environment, { createLongLived, verify }: Lasting) {
  const target = await buildTestApp(t, { env: { ...env, REFRESH_RETRY_WINDOW: '0' } });
  const account = anAccount();
  const first = await signUp(target, account);
  const session = Number(claimsOf(first.access_token).sid);
  const kept = await createLongLived(target, first.access_token);
  const pair = pairOf(await refresh(target, first.refresh_token));
  t.equal((await verify(target, pair.access_token)).statusCode, 200);
  return { target, account, session, kept, pair };
}

const shown = ({ ended }: Listed) => ended.map(({ id, reason, created_by: by }) => [id, reason, by]);

onEachStore('a long-lived token made with a stolen pair', async (t, env) => {
  await onEachLasting(t, 'is refused at once when the owner finds the theft', async (t, lasting) => {
    const { createLongLived, verify } = lasting;
    const { target, account, session, kept, pair } = await aWorld(t, env, lasting);
    const planted = await createLongLived(target, pair.access_token);
    const thiefs = pairOf(await refresh(target, pair.refresh_token, THIEF));
    const another = await createLongLived(target, thiefs.access_token);
    const elsewhere = await createLongLived(target, (await logIn(target, account.username)).access_token);
    for (const { longlived_token: token } of [planted, another])
      t.equal((await verify(target, token)).statusCode, 200);

    refused(t, await refresh(target, pair.refresh_token), 401, 'token_reused');
    for (const { longlived_token: token } of [planted, another])
      refused(t, await verify(target, token), 401, 'invalid_token');
    refused(t, await verify(target, thiefs.access_token), 401, 'invalid_token');
    for (const { longlived_token: token } of [kept, elsewhere])
      t.equal((await verify(target, token)).statusCode, 200, 'created earlier, or by another session');

    const { access_token: token } = await logIn(target, account.username);
    const list = (await call(target, 'GET /api/user/tokens', { token })).json<Listed>();
    t.strictSame(shown(list), [
      [another.id, 'reuse', session],
      [planted.id, 'reuse', session],
      [session, 'reuse', null],
    ]);
    t.match(
      list.tokens.find(({ id }) => id === kept.id),
      { created_by: session },
    );
    const rows = await sql<{ pending: boolean; settled_at: Date | null }>(
      target.databaseUrl,
      'SELECT pending, settled_at FROM tokens WHERE id = ANY($1)',
      [[session, planted.id, another.id]],
    );
    t.equal(rows.length, 3);
    for (const row of rows) t.match(row, { pending: false, settled_at: Date }, 'its tombstone stands');
  });

  await onEachLasting(t, 'is refused at once when the thief’s reuse is found', async (t, lasting) => {
    const { createLongLived, verify } = lasting;
    const { target, kept, pair } = await aWorld(t, env, lasting);
    const planted = await createLongLived(target, pair.access_token);
    const owners = pairOf(await refresh(target, pair.refresh_token));
    await verify(target, owners.access_token);
    refused(t, await refresh(target, pair.refresh_token, THIEF), 401, 'token_reused');
    refused(t, await verify(target, planted.longlived_token), 401, 'invalid_token');
    t.equal((await verify(target, kept.longlived_token)).statusCode, 200);
  });

  await onEachLasting(t, 'survives every other ending of its session', async (t, lasting) => {
    const { createLongLived, verify } = lasting;
    const { target, kept, pair } = await aWorld(t, env, lasting);
    const made = await createLongLived(target, pair.access_token);
    await call(target, 'DELETE /api/auth', { token: pair.access_token });
    refused(t, await refresh(target, pair.refresh_token), 401, 'invalid_token');
    for (const { longlived_token: token } of [made, kept])
      t.equal((await verify(target, token)).statusCode, 200, 'a logout leaves it alone');
  });
});
