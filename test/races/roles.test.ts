import { Redis } from 'ioredis';
import { test, type Test } from 'tap';
import { withReadThrough } from '../../src/domain/tokens/read-through.ts';
import type { User } from '../../src/domain/user.ts';
import { makeFinishUserChange } from '../../src/domain/users/finish-user-change.ts';
import { systemClock } from '../../src/runtime/system-clock.ts';
import { buildTestApp } from '../support/app.ts';
import { aClient, begun } from '../support/begun.ts';
import { anAccount, claimsOf, logIn, signUp } from '../support/client.ts';
import { aFeed } from '../support/feed.ts';
import { deleteKeys, redisMissing, testRedis } from '../support/redis.ts';
import { assertRoles, recordRoles } from '../support/roles.ts';
import { stopAfter } from '../support/stop-after.ts';
import { raceWorld } from './world.ts';
import { UNOBSERVED } from '../support/unobserved.ts';

const skip = { skip: redisMissing };

/** A user with a role on record, and an operation that changes its roles: its answer is 200 once it resolves. */
async function rolesWorld(t: Test) {
  const world = await raceWorld(t);
  const { url, users, tokenStates, tokens, key, generation } = world;
  const finish = makeFinishUserChange({ tokenStates, feed: aFeed() });
  const present = async (): Promise<User> => {
    const account = await users.findOwn(key.userId);
    if (!account) throw new Error('no account');
    return account.user;
  };
  const record = async (roles: string[]) => {
    await recordRoles(url, key.userId, roles);
    return present();
  };
  const change = async (roles: string[]) => {
    await finish(await record(roles));
  };
  const readThrough = withReadThrough(tokenStates, { tokens, clock: systemClock, observe: UNOBSERVED });
  /** What verify says. */
  const roles = async () => {
    const answer = await readThrough.checkAccess(key, generation);
    if (answer.outcome !== 'good') throw new Error(answer.outcome);
    return answer.user.roles;
  };
  /** A rebuild by another replica. It has read the record when this resolves; `go` lets it put what it has read. */
  const beginRebuild = async () => {
    await world.forgetEverything();
    const find = stopAfter((id: number) => tokens.find(id));
    const rebuilding = withReadThrough(tokenStates, {
      tokens: { find: find.work },
      clock: systemClock,
      observe: UNOBSERVED,
    });
    const verifying = rebuilding.checkAccess(key, generation);
    verifying.catch(() => undefined);
    await find.reached;
    return {
      finish: async () => {
        find.go();
        return verifying;
      },
    };
  };
  await change(['admin', 'editor']);
  return { ...world, finish, present, record, change, roles, beginRebuild };
}

type RolesWorld = Awaited<ReturnType<typeof rolesWorld>>;

/** What other replicas may do after Redis was emptied, before the late rebuild goes on. */
const MEANWHILE: Record<string, (world: RolesWorld) => Promise<unknown>> = {
  'nothing else happens': () => Promise.resolve(),
  'another replica has begun a rebuild': ({ tokenStates, key }) => tokenStates.checkAccess(key, 1),
  'another replica has rebuilt it': ({ roles }) => roles(),
  'a renewal has come first': async ({ tokenStates, present }) => tokenStates.putUsers([await present()]),
  'a login has begun': ({ tokenStates, key }) => tokenStates.preparePut(key.userId),
  'a rebuild has begun, and a renewal has come': async ({ tokenStates, key, present }) => {
    await tokenStates.checkAccess(key, 1);
    await tokenStates.putUsers([await present()]);
  },
};

for (const [what, meanwhile] of Object.entries(MEANWHILE)) {
  test(`role removal against rebuild, with Redis emptied: ${what}`, skip, async (t) => {
    const world = await rolesWorld(t);
    const rebuild = await world.beginRebuild();
    await world.change(['editor']);
    await world.forgetEverything();
    await meanwhile(world);
    const answer = await rebuild.finish();
    t.match(answer, { outcome: 'good', user: { roles: ['editor'] } });
    t.strictSame(await world.roles(), ['editor']);
  });
}

test('role removal against rebuild, with Redis intact', skip, async (t) => {
  const world = await rolesWorld(t);
  const rebuild = await world.beginRebuild();
  await world.change(['editor']);
  t.match(await rebuild.finish(), { outcome: 'good', user: { roles: ['editor'] } });
  t.strictSame(await world.roles(), ['editor']);
});

test('role removal against an older change that finishes late, with Redis emptied', skip, async (t) => {
  const world = await rolesWorld(t);
  const older = await world.record(['admin', 'auditor']);
  await world.change(['editor']);
  await world.forgetEverything();
  await world.finish(older);
  t.strictSame(await world.roles(), ['editor']);
  await world.forgetEverything();
  // The key is prepared for a rebuild that has not put its reading yet.
  const rebuild = await world.beginRebuild();
  await world.finish(older);
  t.strictSame(await world.roles(), ['editor']);
  t.match(await rebuild.finish(), { outcome: 'good', user: { roles: ['editor'] } });
});

test('role removal against login: the session opens with the present roles', skip, async (t) => {
  const { url, prefix } = testRedis(t);
  const target = await buildTestApp(t, { env: { REDIS_URL: url, REDIS_PREFIX: prefix } });
  const account = anAccount();
  const { user } = await signUp(target, account);
  await recordRoles(target.databaseUrl, user.id, ['admin', 'editor']);
  const redis = new Redis(url);
  t.teardown(() => {
    redis.disconnect();
  });
  await deleteKeys(redis, prefix);

  const locks = await aClient(t, target.databaseUrl);
  const watch = await aClient(t, target.databaseUrl);
  await locks.query('BEGIN');
  await locks.query("UPDATE users SET roles = '{editor}', version = version + 1 WHERE id = $1", [user.id]);
  const login = begun(() => logIn(target, account.username));
  await login.begin(watch);
  t.equal(login.isDone(), false, 'it has read the account, and waits for the lock');
  await locks.query('COMMIT');
  const { access_token: token } = await login.result();
  t.strictSame(claimsOf(token).roles, ['editor']);
  await assertRoles(t, target, token, 'editor');
});

test('revocation against rebuild, with Redis emptied: the token stays revoked', skip, async (t) => {
  for (const isAsked of [false, true]) {
    const { tokenStates, key, revoke, forgetEverything, beginRebuild } = await rolesWorld(t);
    const rebuild = await beginRebuild();
    t.equal(await revoke(key.userId, key.tokenId), true);
    await forgetEverything();
    if (isAsked) await tokenStates.preparePut(key.userId);
    t.strictSame(await rebuild.finish(), { outcome: 'revoked' });
  }
});
