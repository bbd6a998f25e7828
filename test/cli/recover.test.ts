import { Redis } from 'ioredis';
import { test, type Test } from 'tap';
import { buildTestApp } from '../support/app.ts';
import {
  call,
  claimsOf,
  createLongLived,
  logIn,
  pairOf,
  refresh,
  signUp,
  verify,
} from '../support/client.ts';
import { testFolder } from '../support/folder.ts';
import { latchkey } from '../support/latchkey.ts';
import { testDatabase, withClient } from '../support/postgres.ts';
import { verifyEmail } from '../support/mails.ts';
import { refused } from '../support/problem.ts';
import { deleteKeys, openGate, quietRedisClient, redisMissing, testRedis } from '../support/redis.ts';
import { aMailedReset, aReset, aVerification, redeem } from '../support/resets.ts';
import { aRegisteredService, withRegistry } from '../support/registered-service.ts';
import { postAsService, serviceToken } from '../support/service-tokens.ts';
import { sql } from '../support/sql.ts';
import { UNOBSERVED } from '../support/unobserved.ts';
import { until } from '../support/until.ts';
import { makeRedisRevocationFeed } from '../../src/infra/redis/revocation-feed.ts';
import { planRecovery, readSkipIds, requireKnownEnds } from '../../src/cli/recover.ts';

/** A service on a database that can be reset to an earlier point; its Redis is not reset. */
async function aRestorableService(t: Test) {
  const redis = testRedis(t);
  // All runs share these keys.
  const dataDir = testFolder(t);
  const { url } = await testDatabase(t);
  const name = new URL(url).pathname.slice(1);
  const env = { REDIS_URL: redis.url, REDIS_PREFIX: `${redis.prefix}x[?*]:`, DATA_DIR: dataDir };
  // The service's own prefix: buildTestApp adds the database's name.
  const cli = { DATABASE_URL: url, REDIS_URL: redis.url, REDIS_PREFIX: `${env.REDIS_PREFIX}/${name}:` };
  const inRedis = async (work: (client: Redis) => Promise<unknown>) => {
    const client = new Redis(redis.url);
    await work(client);
    client.disconnect();
  };
  const onServer = (statement: string) =>
    withClient(new URL('/postgres', url).href, (client) => client.query(statement));
  const copy = async (from: string, to: string) => {
    await onServer(`DROP DATABASE IF EXISTS ${to} WITH (FORCE)`);
    await onServer(`CREATE DATABASE ${to} TEMPLATE ${from}`);
  };
  t.teardown(() => onServer(`DROP DATABASE IF EXISTS ${name}_backup WITH (FORCE)`));

  /** Runs the service on the database, then stops it, and does not wait until its heartbeat has expired. */
  const serve = async <Result>(
    work: (target: Awaited<ReturnType<typeof buildTestApp>>) => Promise<Result>,
  ) => {
    const closers: (() => unknown)[] = [];
    const scope = { teardown: (closer: () => unknown) => closers.push(closer) } as unknown as Test;
    try {
      return await work(await buildTestApp(scope, { env, databaseUrl: url }));
    } finally {
      for (const closer of closers) await closer();
      await inRedis((client) => client.del(`${cli.REDIS_PREFIX}serving`));
    }
  };
  return {
    serve,
    backUp: () => copy(name, `${name}_backup`),
    restore: () => copy(`${name}_backup`, name),
    recover: (...args: string[]) => latchkey(['recover', '--yes', '--json', ...args], cli),
    /** As if its tombstone had expired. */
    forget: ({ access_token: token }: { access_token: string }) => {
      const { sub, sid } = claimsOf(token) as { sub: string; sid: number };
      return inRedis((client) => client.del(`${cli.REDIS_PREFIX}{${sub}}:t:${sid}`));
    },
    /** The epoch of the feed, which a read begins if there is none. */
    feedEpoch: async () => {
      const client = quietRedisClient(t, { url: redis.url, timeout: 5000 });
      await client.connect();
      const options = { prefix: cli.REDIS_PREFIX, gate: openGate, observe: UNOBSERVED };
      const { epoch } = await makeRedisRevocationFeed(client, options).read(0, 1);
      return epoch;
    },
    /** While no replica has run for a minute: one that starts takes an emptied Redis only then. */
    inRedis,
    emptyRedis: async () => {
      await inRedis((client) => deleteKeys(client, redis.prefix));
      await sql(url, "UPDATE installation SET at = at - interval '1 minute'");
    },
    cli,
  };
}

test('recover after a restored backup', { skip: redisMissing }, async (t) => {
  const { serve, backUp, restore, recover, emptyRedis, feedEpoch } = await aRestorableService(t);
  const before = await serve(async (target) => {
    const kept = await signUp(target);
    const ended = await logIn(target, kept.user.username);
    const llt = await createLongLived(target, kept.access_token);
    return { kept, ended, llt };
  });
  await backUp();
  const { username } = before.kept.user;
  const after = await serve(async (target) => {
    t.equal((await call(target, 'DELETE /api/auth', { token: before.ended.access_token })).statusCode, 200);
    const kept = pairOf(await refresh(target, before.kept.refresh_token));
    return { kept, session: await logIn(target, username), user: await signUp(target) };
  });
  await restore();
  const epoch = await feedEpoch();
  const tooFew = await recover('--skip-ids', '1');
  t.equal(tooFew.code, 1, 'Redis knows an id that would be assigned again');
  t.match(JSON.parse(tooFew.stderr), { error: /--skip-ids 3\. Nothing has changed$/ });
  t.equal(await feedEpoch(), epoch);

  const { code, stdout, stderr } = await recover();
  t.equal(code, 0, stderr);
  const { newest, ...done } = JSON.parse(stdout) as { newest: string };
  t.match(newest, /^\d{4}-.+Z$/);
  t.strictSame(done, {
    ids: {
      users: { postgres: 1, redis: 2, after: 20_000_001 },
      tokens: { postgres: 3, redis: 5, after: 20_000_003 },
    },
    tokens: 5,
    revoked: 1,
    lost: 2,
    ended: 0,
  });
  t.not(await feedEpoch(), epoch, 'every reader of the feed gets a snapshot');

  await serve(async (target) => {
    for (const over of [before.ended, after.session, after.user]) {
      refused(t, await verify(target, over.access_token), 401, 'invalid_token');
      refused(t, await refresh(target, over.refresh_token), 401, 'invalid_token');
    }
    t.equal((await verify(target, before.llt.longlived_token)).statusCode, 200);
    t.equal((await verify(target, after.kept.access_token)).statusCode, 200);
    refused(t, await verify(target, before.kept.access_token), 401, 'invalid_token');
    pairOf(await refresh(target, after.kept.refresh_token));

    const next = await signUp(target);
    t.ok(next.user.id > after.user.user.id, 'no id of a lost user is reused');
    t.ok(Number(claimsOf(next.access_token).sid) > Number(claimsOf(after.user.access_token).sid));
    t.equal((await verify(target, next.access_token)).headers['x-auth-username'], next.user.username);
  });

  t.match(JSON.parse((await recover()).stdout), { revoked: 0, lost: 0 }, 'a second run finds nothing to do');

  // The record now contains everything that Redis knew.
  await emptyRedis();
  await serve(async (target) => {
    for (const over of [before.ended, after.session, after.user])
      refused(t, await verify(target, over.access_token), 401, 'invalid_token');
    t.equal((await verify(target, before.llt.longlived_token)).statusCode, 200);
  });
});

test(
  'recover voids the reset and verification tokens of the backup: one may have been used since',
  { skip: redisMissing },
  async (t) => {
    const { serve, backUp, restore, recover } = await aRestorableService(t);
    const { resets, verification } = await serve(async (target) => {
      const { databaseUrl } = target;
      const [{ user }, { user: other }] = [await signUp(target), await signUp(target)];
      return {
        resets: [await aReset(databaseUrl, user.id), await aMailedReset(databaseUrl, other.id)],
        verification: await aVerification(databaseUrl, user.id),
      };
    });
    await backUp();
    await serve(async (target) => {
      for (const reset of resets) t.equal((await redeem(target, reset)).statusCode, 200);
      t.equal((await verifyEmail(target, verification)).statusCode, 200);
    });
    await restore();
    t.equal((await recover()).code, 0);
    await serve(async (target) => {
      for (const reset of resets) refused(t, await redeem(target, reset), 401, 'invalid_reset_token');
      refused(t, await verifyEmail(target, verification), 401, 'invalid_verification_token');
    });
  },
);

test(
  'recover ends service tokens, and new ones have a higher version than any before, as have users',
  { skip: redisMissing },
  async (t) => {
    const { serve, backUp, restore, recover, cli } = await aRestorableService(t);
    const ISSUER = 'http://localhost:3000';
    const { shop, ofBackup } = await serve(async (target) => {
      const client = await aRegisteredService(target.databaseUrl, 'shop', ['introspect']);
      return { shop: client, ofBackup: await serviceToken(target, client, ISSUER) };
    });
    await sql(
      cli.DATABASE_URL,
      `INSERT INTO users (username, username_skeleton, email, name, password_hash)
       SELECT n, n, n, n, '' FROM generate_series(1, 1001) AS n`,
    );
    await backUp();
    const lost = await serve(async (target) => {
      await withRegistry(target.databaseUrl, (registry) => registry.endTokens('shop'));
      return serviceToken(target, shop, ISSUER);
    });
    await restore();
    t.equal((await recover()).code, 0);
    const raised = () =>
      sql<{ version: number }>(
        cli.DATABASE_URL,
        'SELECT version FROM users WHERE version > 1000 AND NOT pending',
      );
    const [first, ...others] = await raised();
    t.equal(others.length, 1000);
    await restore();
    t.equal((await recover()).code, 0);
    const [again] = await raised();
    t.ok((again?.version ?? 0) >= (first?.version ?? Infinity), 'also above those of an earlier restore');
    await serve(async (target) => {
      const next = await serviceToken(target, shop, ISSUER);
      t.ok(Number(claimsOf(next).client_version) > 1000 + Number(claimsOf(lost).client_version));
      const ask = (token: string) => postAsService(target, '/api/auth/introspect', token, { token: 'x' });
      for (const over of [ofBackup, lost])
        refused(t, await ask(over), 401, 'invalid_token', undefined, 'invalid_token');
      t.equal((await ask(next)).statusCode, 200);
    });
  },
);

test('recover after the loss of Redis as well', { skip: redisMissing }, async (t) => {
  const { serve, backUp, restore, inRedis, emptyRedis, cli } = await aRestorableService(t);
  const before = await serve(async (target) => {
    const pair = await signUp(target);
    return { ...pair, llt: await createLongLived(target, pair.access_token) };
  });
  await backUp();
  const lost = await serve((target) => logIn(target, before.user.username));
  await restore();
  await emptyRedis();

  t.match(await latchkey(['recover', '--yes'], cli), { code: 1, stderr: /^Redis holds no token: .+/m });
  const foreign = 'x'.repeat(22);
  await inRedis((client) => client.set(`${cli.REDIS_PREFIX}mark`, `${foreign} ${foreign}`));
  t.match(await latchkey(['recover', '--yes', '--end-all'], cli), {
    code: 0,
    stdout: /^2 others have been ended/m,
    stderr: new RegExp(`^Redis has the id ${foreign}, and the database names (?!x{22})`, 'm'),
  });
  await serve(async (target) => {
    for (const token of [before.access_token, before.llt.longlived_token, lost.access_token])
      refused(t, await verify(target, token), 401, 'invalid_token');
    target.composition.start();
    const { access_token: token } = await logIn(target, before.user.username);
    t.equal((await verify(target, token)).statusCode, 200);
  });
});

/** Makes the record that many hours older. */
async function age(databaseUrl: string, hours: number) {
  await sql(
    databaseUrl,
    `UPDATE tokens SET created_at = created_at - $1 * interval '1 hour', latest = latest - $1 * 3600000000,
       last_used_at = last_used_at - $1 * interval '1 hour'`,
    [hours],
  );
}

test(
  'what ended after an older backup comes back only if the operator says so',
  { skip: redisMissing },
  async (t) => {
    const { serve, backUp, restore, recover, forget, cli } = await aRestorableService(t);
    const { pair, ended } = await serve(async (target) => {
      const first = await signUp(target);
      await createLongLived(target, first.access_token);
      return { pair: first, ended: await logIn(target, first.user.username) };
    });
    await age(cli.DATABASE_URL, 2);
    await backUp();
    const lost = await serve(async (target) => {
      t.equal((await call(target, 'DELETE /api/auth', { token: ended.access_token })).statusCode, 200);
      // Live traffic: Redis holds tokens.
      return logIn(target, pair.user.username);
    });
    await forget(ended);
    await restore();
    // What a command writes after the restore does not make the backup newer, and neither does a wrong clock.
    await sql(cli.DATABASE_URL, 'UPDATE users SET changed_at = now(), enabled_at = now()');
    await sql(
      cli.DATABASE_URL,
      "UPDATE tokens SET last_used_at = now() + interval '1 day' WHERE type = 'llt'",
    );

    const { code, stderr } = await recover();
    t.equal(code, 1);
    const refusal = JSON.parse(stderr) as { newest: string };
    t.match(refusal, { limit: 7200, sessions: 2, long_lived: 1 });
    t.match(refusal, { error: /of the 2 sessions and 1 long.+, 2 h \d min ago.+Nothing has changed$/is });
    t.ok(Date.now() - Date.parse(refusal.newest) > 7_200_000);
    t.match(await latchkey(['recover', '--yes'], { ...cli, SESSION_CACHE_TTL: '3660' }), { code: 0 });
    t.match(await latchkey(['recover', '--yes'], { ...cli, SESSION_CACHE_TTL: '3540' }), { code: 1 });
    await sql(cli.DATABASE_URL, "UPDATE tokens SET latest = 0, created_at = now() + interval '1 day'");
    t.match(JSON.parse((await recover()).stderr), { newest: null }, 'no time that can be believed');
    await restore();

    t.equal((await recover('--keep-sessions')).code, 0);
    await serve(async (target) => {
      t.equal((await refresh(target, ended.refresh_token)).statusCode, 200, 'as the operator has chosen');
      refused(t, await verify(target, lost.access_token), 401, 'invalid_token');
    });
    t.match(JSON.parse((await recover('--end-all')).stdout), { ended: 3 });
    t.equal((await recover()).code, 0, 'nothing is left that could come back');
  },
);

test('recover ends every good token, in Redis as well', { skip: redisMissing }, async (t) => {
  const { serve, recover } = await aRestorableService(t);
  const pair = await serve((target) => signUp(target));
  t.match(JSON.parse((await recover('--end-all')).stdout), { tokens: 1, ended: 1 });
  await serve(async (target) => {
    target.composition.start();
    await until(async () => (await verify(target, pair.access_token)).statusCode === 401);
  });
});

test('recover gives up on Sentinels that do not answer', { skip: redisMissing }, async (t) => {
  const { cli } = await aRestorableService(t);
  const unreachable = {
    REDIS_MODE: 'sentinel',
    REDIS_URL: 'redis://main',
    REDIS_NODES: '127.0.0.1:1',
    REDIS_SENTINEL_NAME: 'main',
  };
  t.match(await latchkey(['recover', '--yes'], { ...cli, ...unreachable }), {
    code: 1,
    stderr: /cannot be reached/,
  });
});

test('recover reports a failure', { skip: redisMissing }, async (t) => {
  const { cli } = await aRestorableService(t);
  const without = await latchkey(['recover', '--yes'], { DATABASE_URL: cli.DATABASE_URL });
  t.match(without, { code: 1, stderr: /REDIS_URL/ });
  const away = { ...cli, REDIS_URL: 'redis://:sesame@127.0.0.1:1' };
  const { code, stderr } = await latchkey(['recover', '--yes'], away);
  t.equal(code, 1);
  t.match(stderr, /cannot be reached/);
  t.notMatch(stderr, /sesame|\n {4}at /);
});

test('the next id is above every id that either store knows', (t) => {
  const skip = 20;
  for (const redis of [0, 100, 119, 120]) {
    const { users, tokens } = planRecovery({ users: 100, tokens: 100 }, { users: 0, tokens: redis }, skip);
    t.strictSame([users.after, tokens], [120, { postgres: 100, redis, after: 120 }]);
  }
  for (const redis of [
    { users: 121, tokens: 0 },
    { users: 0, tokens: 121 },
  ])
    t.throws(() => planRecovery({ users: 100, tokens: 100 }, redis, skip), {
      message: /--skip-ids 41\. Nothing/,
      facts: { ids: { users: { redis: redis.users } } },
    });
  t.end();
});

test('ended sessions could be good again if Redis may have forgotten an end, and there is one to come back', (t) => {
  const now = Date.parse('2026-11-26T12:00:00Z');
  const ends = { newest: now - 7_200_000, sessions: 1, longLived: 0, limit: 7_200_000, hasTokens: true };
  requireKnownEnds(ends, now, 'state');
  requireKnownEnds({ ...ends, newest: 0, sessions: 0, hasTokens: false }, now, 'state');
  t.throws(
    () => {
      requireKnownEnds(ends, now + 1, 'state');
    },
    {
      message:
        /of the 1 sessions and 0 .+ at 2026-11-26T10:00:00\.000Z, 2 h 0 min ago.+ for 2 h 0 min .+state$/s,
      facts: { newest: '2026-11-26T10:00:00.000Z', limit: 7200, sessions: 1, long_lived: 0 },
    },
  );
  t.throws(
    () => {
      requireKnownEnds({ ...ends, newest: now, hasTokens: false }, now, 'state');
    },
    {
      message: /Redis holds no token/,
    },
  );
  t.throws(
    () => {
      requireKnownEnds({ ...ends, newest: 0, sessions: 0, longLived: 1 }, now, 'state');
    },
    {
      message: /no record of a session/,
      facts: { newest: null },
    },
  );
  t.end();
});

test('ids stay below 2^53', (t) => {
  const [none, skip] = [{ users: 0, tokens: 0 }, readSkipIds(String(Number.MAX_SAFE_INTEGER))];
  t.equal(planRecovery(none, none, skip).users.after, Number.MAX_SAFE_INTEGER);
  t.throws(() => planRecovery({ users: 0, tokens: 1 }, none, skip), { message: /2\^53/ });
  t.throws(() => readSkipIds(String(2 ** 53)));
  t.end();
});

test('the number of ids to leave out is a whole number above 0', (t) => {
  t.equal(readSkipIds('20000000'), 20_000_000);
  for (const value of ['0', '-1', 'x', '1.5', '1e9', ''])
    t.throws(() => readSkipIds(value), { message: /above 0/ }, value);
  t.end();
});
