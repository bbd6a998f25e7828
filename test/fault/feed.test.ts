import { setTimeout as sleep } from 'node:timers/promises';
import { test, type Test } from 'tap';
import { testFolder } from '../support/folder.ts';
import { bearer } from '../support/client.ts';
import { aFeedClient, type FeedClient } from '../support/feed-reader.ts';
import { startNginx } from '../support/nginx.ts';
import { signUpOver } from '../support/over-http.ts';
import { testDatabase, withClient } from '../support/postgres.ts';
import { startSentinels } from '../support/redis-sentinel.ts';
import { startRedis } from '../support/redis-server.ts';
import { aRegisteredService, basic } from '../support/registered-service.ts';
import { toolsMissing } from '../support/tools.ts';
import type { Environment } from '../../src/config/config.ts';
import { eventually } from '../support/until.ts';
import { isReady, startReplica, type Replica } from './harness/replica.ts';

/** Revocations of a test, spread over all its faults. */
const COUNT = Number(process.env.FEED_REVOCATIONS ?? 500);
/** Concurrent logouts. */
const WORKERS = 4;
/** Seconds allowed for steps that take about one. */
const PATIENCE = 90;

/** A reader, and the revocations that it missed. */
interface Watched extends FeedClient {
  name: string;
  missed: number[];
}

interface FeedWorld {
  replicas: Replica[];
  readers: Watched[];
  /** Ends this many sessions while `meanwhile` causes a fault; resolves once every reader knows all of them. */
  revokes(count: number, meanwhile: () => unknown): Promise<void>;
  /** Number of snapshots that the readers received. */
  snapshots(): number;
}

/** Three replicas, four readers that change replicas, one reader behind nginx, and sessions to end. */
async function startFeedWorld(t: Test, redis: Environment): Promise<FeedWorld> {
  const { url } = await testDatabase(t);
  const dataDir = testFolder(t);
  const env = { DATABASE_URL: url, DATA_DIR: dataDir, REDIS_TIMEOUT: '2000', ...redis };
  const replicas = await Promise.all([1, 2, 3].map(() => startReplica(t, env)));
  for (const replica of replicas) await isReady(replica, PATIENCE);
  const { authorization } = basic(await aRegisteredService(url, 'reader'));
  const { access_token: token, user } = await signUpOver(replicas[0]?.url ?? '');
  const ids = await sessionsOf(url, user.id, COUNT);
  const ended: number[] = [];

  let turn = 0;
  const nextUrl = () => replicas[turn++ % replicas.length]?.url ?? '';
  const nginx = await startNginx(
    t,
    replicas.map((replica) => replica.url),
  );
  const watched = (name: string, at: () => string): Watched => {
    const missed: number[] = [];
    // The second of two heartbeats was sent after the first arrived, so it covers all that ended before the first.
    let due = 0;
    const client = aFeedClient(t, {
      url: at,
      authorization,
      comesBack: true,
      onEvent: ({ event }) => {
        if (event !== 'heartbeat') return;
        missed.push(...ended.slice(0, due).filter((id) => !client.knows(id, user.id)));
        due = ended.length;
      },
    });
    return { ...client, name, missed };
  };
  const readers = [1, 2, 3, 4].map((i) => watched(`reader ${i}`, nextUrl));
  readers.push(watched('reader behind nginx', () => nginx.url));
  for (const reader of readers) await eventually(PATIENCE, () => missingFrom(reader, []));

  async function end(id: number): Promise<void> {
    for (;;) {
      const target = `${nextUrl()}/api/auth/${id}`;
      const status = await fetch(target, {
        method: 'DELETE',
        headers: bearer(token),
        signal: AbortSignal.timeout(5000),
      }).then(
        (response) => response.status,
        () => 0,
      );
      if (status === 200) break;
      if (status !== 0 && status !== 503) throw new Error(`revocation: ${status}`);
      await sleep(50);
    }
    ended.push(id);
  }

  return {
    replicas,
    readers,
    snapshots: () =>
      readers.flatMap(({ events }) => events.filter(({ event, id }) => event === 'snapshot' && id)).length,
    async revokes(count, meanwhile) {
      const now = ids.splice(0, count);
      const half = now.length >> 1;
      const work = [...now];
      let struck: unknown = null;
      await Promise.all(
        Array.from({ length: WORKERS }, async () => {
          for (let id = work.shift(); id !== undefined; id = work.shift()) {
            if (work.length <= half) struck ??= meanwhile();
            await end(id);
          }
        }),
      );
      await struck;
      for (const reader of readers) await eventually(PATIENCE, () => missingFrom(reader, now, user.id));
    },
  };
}

/** Null if the reader gets news and knows these ids; otherwise what is missing. */
function missingFrom(reader: Watched, ids: number[], userId?: number): Promise<string | null> {
  const unknown = ids.filter((id) => !reader.knows(id, userId));
  const isTold = reader.isConnected() && reader.events.at(-1)?.event === 'heartbeat';
  const missing = unknown.length > 0 || !isTold;
  return Promise.resolve(
    missing
      ? `${reader.name}: ${unknown.length} of ${ids.length} not known, ${isTold ? '' : 'no heartbeat'}`
      : null,
  );
}

/** Sessions without use: each has only its record. */
async function sessionsOf(databaseUrl: string, userId: number, count: number): Promise<number[]> {
  return withClient(databaseUrl, async (client) => {
    const { rows } = await client.query<{ id: string }>(
      `INSERT INTO tokens (user_id, type, name, created_at, latest, first)
       SELECT $1, 'session', 'a device', now(), 1, 1 FROM generate_series(1, $2) RETURNING id`,
      [userId, count],
    );
    return rows.map(({ id }) => Number(id));
  });
}

function nothingMissed(t: Test, { readers }: FeedWorld): void {
  for (const { name, missed, events, connections } of readers) {
    t.strictSame(missed, [], `${name} knew at each heartbeat all earlier revocations`);
    t.comment(`${name}: ${events.length} events, ${connections()} connections`);
  }
}

test('no reader misses a revocation', { skip: toolsMissing('bash', 'redis-server', 'nginx') }, async (t) => {
  const redis = await startRedis(t);
  const world = await startFeedWorld(t, { REDIS_URL: redis.url });
  const { readers, replicas } = world;
  const share = Math.ceil(COUNT / 4);

  await t.test('whose connections end repeatedly', async (t) => {
    const before = world.snapshots();
    await world.revokes(share, async () => {
      for (let i = 0; i < 3 * readers.length; i++) {
        readers[i % readers.length]?.cut();
        await sleep(50);
      }
    });
    t.equal(world.snapshots(), before, 'each continued at its position');
  });

  await t.test('whose replica is killed', async (t) => {
    const before = world.snapshots();
    await world.revokes(share, async () => {
      const [victim] = replicas;
      await victim?.stop('SIGKILL');
      await victim?.start();
      if (victim) await isReady(victim, PATIENCE);
    });
    t.equal(world.snapshots(), before, 'each continued at its position');
  });

  await t.test('while Redis is emptied', async (t) => {
    const before = world.snapshots();
    await world.revokes(share, () => redis.ask('FLUSHALL'));
    t.ok(world.snapshots() >= before + readers.length, 'each got a new snapshot');
  });

  await t.test('while Redis is restarted from an old snapshot', async (t) => {
    const before = world.snapshots();
    await redis.ask('SAVE');
    await world.revokes(share, async () => {
      await redis.kill();
      await redis.start();
    });
    t.ok(world.snapshots() >= before + readers.length, 'each got a new snapshot');
  });
  nothingMissed(t, world);
});

test(
  'no reader misses a revocation while Redis fails over',
  { skip: toolsMissing('bash', 'redis-server', 'redis-sentinel', 'nginx') },
  async (t) => {
    const sentinels = await startSentinels(t);
    const world = await startFeedWorld(t, sentinels.env);
    const before = world.snapshots();
    await world.revokes(Math.ceil(COUNT / 2), async () => {
      const old = await sentinels.master();
      await old.kill();
      await sentinels.failedOverFrom(old);
    });
    t.ok(world.snapshots() >= before + world.readers.length, 'each got a new snapshot');
    await world.revokes(COUNT, () => undefined);
    nothingMissed(t, world);
  },
);
