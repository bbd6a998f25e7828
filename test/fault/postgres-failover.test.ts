// alone
import { Redis } from 'ioredis';
import { test, type Test } from 'tap';
import type { Environment } from '../../src/config/config.ts';
import { checkDatabase } from '../../src/doctor/database.ts';
import { anAccount, claimsOf, type Pair } from '../support/client.ts';
import { aConfig, byCheck } from '../support/doctor.ts';
import { testFolder } from '../support/folder.ts';
import { latchkey } from '../support/latchkey.ts';
import {
  createLongLivedOver,
  logInOver,
  logOutOver,
  refreshOver,
  signUpOver,
  sixOperationsOver,
  verifyOver,
} from '../support/over-http.ts';
import { deleteKeys, redisMissing, testRedis } from '../support/redis.ts';
import { startRedis } from '../support/redis-server.ts';
import { replicationMissing, startReplicatedPostgres } from './harness/replicated-postgres.ts';
import { toolsMissing } from '../support/tools.ts';
import { eventually } from '../support/until.ts';
import { strike } from './harness/fault.ts';
import { isReady, startReplica } from './harness/replica.ts';
import { revocationRounds } from './harness/revocation-rounds.ts';
import { DATABASE_TIMEOUT, startWorld, type World } from './harness/world.ts';

/**
 * Milliseconds that the stream takes each way while the newest commits are made. Otherwise even an asynchronous standby
 * would have them.
 */
const LAG = 200;
/** The milliseconds that an answer may take, as for any fault of PostgreSQL. */
const BOUND = 6 * DATABASE_TIMEOUT;
/** PostgreSQL logs sequences 32 ids ahead, and a standby continues after them. More must be lost to be given again. */
const LOST = 40;

type Account = ReturnType<typeof anAccount>;

test(
  'a synchronous standby takes over under load',
  { skip: replicationMissing || toolsMissing('redis-server') },
  async (t) => {
    const postgres = await startReplicatedPostgres(t, { synchronous: true });
    const redis = await startRedis(t);
    t.match(
      await standbysOf(postgres.primary()),
      [{ state: 'ok', found: /1 of them synchronous/ }],
      'doctor',
    );
    await postgres.ask('CREATE ROLE plain LOGIN');
    await postgres.ask('GRANT pg_read_all_data TO plain');
    const plain = postgres.primary().replace('postgres@', 'plain@');
    t.match(await standbysOf(plain), [{ state: 'warn', found: /cannot see/ }], 'doctor, as a plain role');

    const world = await startWorld(t, { DATABASE_URL: postgres.url, REDIS_URL: redis.url });
    await world.recovered(30);

    /** The new primary commits nothing before it has a standby. */
    const failOver = async () => {
      await postgres.killPrimary();
      await postgres.promote();
      postgres.setReplication('pass');
      await postgres.rebuildStandby();
    };
    const lag = () => {
      postgres.setReplication(LAG);
    };
    const failOverCutOff = {
      name: 'PostgreSQL cut off from its synchronous standby, then failed over to it',
      bound: BOUND,
      seconds: 3,
      strike: () => {
        postgres.setReplication('hang');
      },
      heal: failOver,
    };
    await t.test(failOverCutOff.name, (t) => strike(t, world, failOverCutOff));

    // With Redis emptied, only the record knows the tokens.
    const lose = () => Promise.all([failOver(), redis.ask('FLUSHALL')]);
    await t.test('revoked, then PostgreSQL failed over and Redis emptied', (t) =>
      revocationRounds(t, world, {
        name: 'revoked, then PostgreSQL failed over and Redis emptied',
        // Each one builds a standby.
        rounds: 2,
        prepare: lag,
        strike: lose,
      }),
    );
    await t.test('accounts and tokens of the last moment', (t) =>
      keepsTheNewest(t, world, { lag, failOver: lose }),
    );
  },
);

/** Fails over right after accounts and tokens were created: each of them must be there. */
async function keepsTheNewest(
  t: Test,
  world: World,
  { lag, failOver }: { lag: () => unknown; failOver: () => Promise<unknown> },
): Promise<void> {
  const [{ url }] = world.replicas;
  const holders = await newcomers(url, 8);
  lag();
  const [newest, tokens] = await Promise.all([
    newcomers(url, 8),
    Promise.all(holders.map(({ pair }) => acknowledged(() => createLongLivedOver(url, pair.access_token)))),
  ]);
  await failOver();
  await world.recovered(20);
  const answers = async <Item>(items: Item[], ask: (item: Item) => Promise<number>) =>
    new Set(await Promise.all(items.map((item) => settled(() => ask(item)))));
  const all = new Set([200]);
  t.strictSame(
    await answers(tokens, ({ longlived_token: token }) => verifyOver(url, token)),
    all,
    'long-lived tokens',
  );
  t.strictSame(await answers(newest, ({ pair }) => refreshStatus(url, pair)), all, 'sessions');
  t.strictSame(await answers(newest, ({ account }) => logInStatus(url, account)), all, 'accounts');
}

test(
  'an asynchronous standby that lags takes over, and recover repairs the loss',
  { skip: redisMissing || replicationMissing },
  async (t) => {
    const postgres = await startReplicatedPostgres(t, { synchronous: false });
    const redis = testRedis(t);
    t.match(await standbysOf(postgres.primary()), [{ state: 'warn', found: /none of them sync/ }], 'doctor');
    const stores = { DATABASE_URL: postgres.url, REDIS_URL: redis.url, REDIS_PREFIX: redis.prefix };
    const service = await startPair(t, stores);

    const owner = anAccount();
    const first = await signUpOver(service.url(), owner);
    const ended = await logIn(service.url(), owner);
    const { longlived_token: longLived } = await createLongLivedOver(service.url(), first.access_token);
    await postgres.caughtUp();

    postgres.setReplication('hang');
    t.equal(await logOutOver(service.url(), ended.access_token), 200, 'a logout that will be lost');
    const kept = (await (await refreshOver(service.url(), first.refresh_token)).json()) as Pair;
    const lostSession = await logIn(service.url(), owner);
    const { longlived_token: lostLongLived } = await createLongLivedOver(service.url(), kept.access_token);
    const lostUsers = await newcomers(service.url(), LOST);
    const lostPairs = [lostSession, ...lostUsers.map(({ pair }) => pair)];

    // The replicas serve through the failover, as with one that is automatic.
    await postgres.killPrimary();
    await postgres.promote();

    await t.test('the damage', async (t) => {
      const answer = async <Row>(sql: string) => (await postgres.ask(sql))[0] as Row;
      const ids = [...lostPairs.map(({ access_token: token }) => tokenIdOf(token)), tokenIdOf(lostLongLived)];
      t.match(
        await answer(`SELECT count(*)::int FROM tokens WHERE id IN (${ids.join()})`),
        { count: 0 },
        'lost tokens have no record',
      );
      t.match(
        await answer(`SELECT revoked_at FROM tokens WHERE id = ${tokenIdOf(ended.access_token)}`),
        { revoked_at: null },
        'a revoked token is live on record',
      );
      const next = (table: string) =>
        answer<{ id: number }>(`SELECT nextval(pg_get_serial_sequence('${table}', 'id'))::int AS id`);
      const userIds = lostUsers.map(({ pair }) => pair.user.id);
      t.ok(userIds.includes((await next('users')).id), 'the next user would get the id of a lost one');
      t.ok(ids.includes((await next('tokens')).id), 'the next token as well');

      const { access_token: token } = lostSession;
      t.equal(
        await settled(() => verifyOver(service.url(), token)),
        200,
        'Redis still has a session without a record',
      );
      await t.resolves(
        eventually(30, async () => {
          const status = await verifyOver(service.url(), token);
          return status === 401 ? null : `verify: ${status}`;
        }),
        'until write-behind looks for its record: the owner is signed out',
      );
    });

    await t.test('the repair', async (t) => {
      await service.stop();
      const run = () => latchkey(['recover', '--yes', '--json'], stores);
      let done = await run();
      // A replica's heartbeat lives for 5 s.
      await eventually(60, async () =>
        done.code === 0 || (done = await run()).code === 0 ? null : done.stderr,
      );
      t.match(JSON.parse(done.stdout), { revoked: 1, lost: LOST + 1 });
      await service.start();
    });

    const over = [...lostPairs, ended];
    const assertRepaired = async (t: Test, url: string) => {
      const verify = (token: string) => settled(() => verifyOver(url, token));
      const refused = await Promise.all([
        ...over.map(({ access_token: token }) => verify(token)),
        ...over.map((pair) => settled(() => refreshStatus(url, pair))),
        verify(lostLongLived),
      ]);
      t.strictSame(new Set(refused), new Set([401]), 'lost and revoked tokens have ended');
      t.equal(await verify(longLived), 200, 'a token from before works');
      t.equal(await verify(kept.access_token), 200, 'and a session that was refreshed in the lost time');
      await sixOperationsOver(t, url);
    };
    await t.test('after it', async (t) => {
      for (const url of service.urls()) await assertRepaired(t, url);
      // Their names are free.
      const again = await Promise.all(lostUsers.map(({ account }) => signUpOver(service.url(), account)));
      t.ok(
        minimum(again.map(userIdOf)) > maximum(lostPairs.map(userIdOf)),
        'no id of a lost user is given again',
      );
      const sessions = (pairs: Pair[]) => pairs.map(({ access_token: token }) => tokenIdOf(token));
      t.ok(
        minimum(sessions(again)) > maximum([...sessions(over), tokenIdOf(lostLongLived)]),
        'nor of a token',
      );
    });
    await t.test('after it, with Redis emptied', async (t) => {
      const client = new Redis(redis.url);
      await deleteKeys(client, redis.prefix);
      client.disconnect();
      for (const url of service.urls()) await assertRepaired(t, url);
    });
  },
);

/** Two replicas that share their keys. */
async function startPair(t: Test, stores: Environment) {
  const env = { ...stores, DATA_DIR: testFolder(t) };
  const replicas = [await startReplica(t, env), await startReplica(t, env)] as const;
  const ready = () => Promise.all(replicas.map((replica) => isReady(replica)));
  await ready();
  return {
    url: () => replicas[0].url,
    urls: () => replicas.map(({ url }) => url),
    stop: () => Promise.all(replicas.map((replica) => replica.stop('SIGTERM'))),
    async start() {
      await Promise.all(replicas.map((replica) => replica.start()));
      await ready();
    },
  };
}

/** What `doctor` says of the standbys. */
async function standbysOf(url: string) {
  return byCheck(await checkDatabase(aConfig({ DATABASE_URL: url })))['database standbys'];
}

/** The status after the outage: a 503 is waited out. */
async function settled(ask: () => Promise<number>): Promise<number> {
  let status = 503;
  await eventually(30, async () => ((status = await ask()) === 503 ? 'still 503' : null));
  return status;
}

/** Creates accounts, all at once. */
async function newcomers(url: string, count: number): Promise<{ account: Account; pair: Pair }[]> {
  const newcomer = async () => {
    const account = anAccount();
    return { account, pair: await signUpOver(url, account) };
  };
  return Promise.all(Array.from({ length: count }, () => acknowledged(newcomer)));
}

/** The first answer of 200: a commit may take too long for one. */
async function acknowledged<Result>(create: () => Promise<Result>): Promise<Result> {
  const results: Result[] = [];
  await eventually(30, () =>
    create().then(
      (result) => (results.push(result), null),
      (error: unknown) => (error as Error).message,
    ),
  );
  return results[0] as Result;
}

async function refreshStatus(url: string, { refresh_token: token }: Pair): Promise<number> {
  return (await refreshOver(url, token)).status;
}

async function logInStatus(url: string, { username, password }: Account): Promise<number> {
  return (await logInOver(url, username, password)).status;
}

async function logIn(url: string, { username, password }: Account): Promise<Pair> {
  const response = await logInOver(url, username, password);
  if (response.status !== 200) throw new Error(`no pair: ${response.status}`);
  return (await response.json()) as Pair;
}

const tokenIdOf = (token: string) => Number(claimsOf(token).sid);
const userIdOf = ({ user }: Pair) => user.id;
const minimum = (numbers: number[]) => Math.min(...numbers);
const maximum = (numbers: number[]) => Math.max(...numbers);
