import { aManager } from '../../support/accounts.ts';
import { buildTestApp } from '../../support/app.ts';
import {
  anAccount,
  call,
  claimsOf,
  createLongLived,
  logIn,
  pairOf,
  refresh,
  signUp,
} from '../../support/client.ts';
import { assertRoles, changeRoles } from '../../support/roles.ts';
import { introspect } from '../../support/registered-service.ts';
import { onAStore } from '../../support/stores.ts';

const MANY = Array.from({ length: 32 }, (_, i) => `${i}`.padStart(64, 'a:_-'));

onAStore('roles', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const manager = await aManager(target.databaseUrl, target);
  const service = manager.client;
  const account = anAccount();
  const pair = await signUp(target, account);
  const { access_token: token, user } = pair;
  const change = (roles: string[]) => changeRoles(manager, user.id, roles);
  const { longlived_token: llt } = await createLongLived(target, token);

  await t.test('a new account has none: its token lacks the claim, and every answer says so', async (t) => {
    t.notOk('roles' in claimsOf(token));
    for (const each of [token, llt]) {
      await assertRoles(t, target, each, '');
      t.strictSame((await introspect(target, service, each)).json<{ roles: unknown }>().roles, []);
    }
  });

  await t.test('verify and introspection say the present roles, not those in the token', async (t) => {
    for (const roles of [['editor', 'billing:read'], MANY, ['x_1-2'], []]) {
      await change(roles);
      for (const each of [token, llt]) {
        await assertRoles(t, target, each, roles.join());
        const { body } = await introspect(target, service, each);
        t.match(JSON.parse(body), { active: true, sid: claimsOf(each).sid });
        t.strictSame((JSON.parse(body) as { roles: unknown }).roles, roles);
        t.equal(body.split('"roles"').length, 2, 'one member of this name');
      }
      t.notOk('roles' in claimsOf(token));
    }
  });

  await t.test('a token with the most and longest roles is good', async (t) => {
    await change(MANY);
    const { access_token: large } = await logIn(target, account.username);
    t.strictSame(claimsOf(large).roles, MANY);
    await assertRoles(t, target, large, MANY.join());
    await change(['editor']);
    const { body } = await introspect(target, service, large);
    t.strictSame((JSON.parse(body) as { roles: unknown }).roles, ['editor']);
    t.equal(body.split('"roles"').length, 2, 'the roles in the token are not told beside the present ones');
  });

  await t.test('an access token holds the roles of its issue; no other token holds any', async (t) => {
    await change(['editor', 'billing:read']);
    const next = await logIn(target, account.username);
    t.strictSame(claimsOf(next.access_token).roles, ['editor', 'billing:read']);
    await change(['editor']);
    const refreshed = pairOf(await refresh(target, next.refresh_token));
    t.strictSame(claimsOf(refreshed.access_token).roles, ['editor']);
    const { longlived_token: other } = await createLongLived(target, refreshed.access_token);
    for (const each of [other, refreshed.refresh_token]) t.notOk('roles' in claimsOf(each));
    await assertRoles(t, target, other, 'editor');
    t.strictSame(refreshed.user.roles, ['editor'], 'the user of an answer has the present ones too');
    await change(['auditor']);
    const profile = await call(target, 'GET /api/user', { token: refreshed.access_token });
    const changed = await call(target, 'PATCH /api/user', {
      token: refreshed.access_token,
      payload: { name: 'Ada K.' },
    });
    for (const answer of [profile, changed]) t.match(answer.json(), { roles: ['auditor'] });
    await change(['editor']);
    const { active, username, roles, ...claims } = (
      await introspect(target, service, refreshed.access_token)
    ).json<Record<string, unknown>>();
    t.strictSame([active, username, roles], [true, account.username, ['editor']]);
    t.match(claimsOf(refreshed.access_token), { ...claims, token_type: undefined, token_use: undefined });
  });

  await t.test('a pair that is issued again has equal claims, except the roles', async (t) => {
    const { refresh_token: used } = await logIn(target, account.username);
    const first = pairOf(await refresh(target, used));
    await change(['auditor']);
    const again = pairOf(await refresh(target, used));
    const { roles, ...claims } = claimsOf(first.access_token);
    t.strictSame(roles, ['editor']);
    t.strictSame(claimsOf(again.access_token), { ...claims, roles: ['auditor'] });
    t.strictSame(claimsOf(again.refresh_token), claimsOf(first.refresh_token));
  });
});
