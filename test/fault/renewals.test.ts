// alone
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { test, type Test } from 'tap';
import { faultProxy, type FaultProxy } from '../support/fault-proxy.ts';
import { listen } from '../support/listen.ts';
import { logOutOver, signUpOver, verifyOver } from '../support/over-http.ts';
import { testDatabase } from '../support/postgres.ts';
import { redisServersMissing, startRedis, type RedisServer } from '../support/redis-server.ts';
import { readyService, type Service } from '../support/service.ts';
import { sql } from '../support/sql.ts';
import { eventually, until } from '../support/until.ts';

const skip = redisServersMissing;

/** Milliseconds: the contract's second, doubled because the servers load this machine too. */
const BOUND = 2000;
/** Longer than a renewal without another reason reaches back, in milliseconds. */
const NOT_NEW = 2000;

/** A proxy that keeps its clients' connections when it changes servers, as one does that speaks Redis's protocol. */
async function protocolProxy(t: Test, first: RedisServer) {
  let port = first.port;
  let isCut = false;
  const links = new Set<{ client: net.Socket; upstream: net.Socket }>();
  const dial = (client: net.Socket) => {
    const upstream = net.connect(port, '127.0.0.1');
    upstream.on('data', (chunk) => {
      if (!isCut) client.write(chunk);
    });
    upstream.on('error', () => undefined);
    return upstream;
  };
  const server = net.createServer((client) => {
    const link = { client, upstream: dial(client) };
    links.add(link);
    client.on('data', (chunk) => {
      if (!isCut) link.upstream.write(chunk);
    });
    client.on('error', () => undefined);
    client.on('close', () => {
      links.delete(link);
      link.upstream.destroy();
    });
  });
  const url = (await listen(t, server)).replace('http', 'redis');
  return {
    url,
    /** Nothing passes any more. */
    cut() {
      isCut = true;
    },
    async swap(to: RedisServer): Promise<void> {
      port = to.port;
      for (const { client } of links) client.pause();
      // By then the old server has answered what it was asked.
      await sleep(100);
      for (const link of links) {
        link.upstream.destroy();
        link.upstream = dial(link.client);
        link.client.resume();
      }
    },
  };
}

/** A master, and a replica of it that is up to date until it is promoted. */
async function twoServers(t: Test) {
  const master = await startRedis(t);
  const args = ['--replicaof', `127.0.0.1 ${master.port}`, '--repl-diskless-sync-delay', '0'];
  const copy = await startRedis(t, { args });
  await until(async () => (await copy.info('master_link_status')) === 'up');
  return {
    master,
    copy,
    /** The copy gets nothing from now on. */
    promote: async () => {
      await master.ask('WAIT', 1, 5000);
      await copy.ask('REPLICAOF', 'NO', 'ONE');
    },
  };
}

const holderOn = async (server: RedisServer) =>
  String(await server.ask('HGET', 'latchkey:renewer', 'replica'));

const signal = ({ process: { pid = 0 } }: Service, name: NodeJS.Signals) => process.kill(pid, name);

/** A token of a user who has signed up and out by these replicas, once nothing of its end waits. */
async function ended(t: Test, databaseUrl: string, by: Service, token: string): Promise<void> {
  t.equal(await logOutOver(by.url, token), 200);
  await eventually(10, async () => {
    const [row] = await sql<{ count: string }>(databaseUrl, 'SELECT count(*) FROM tokens WHERE pending');
    return row?.count === '0' ? null : 'a sweep would find it';
  });
}

/** Checks that a replica gives an answer in time, and from then on. */
async function answers(t: Test, ask: () => Promise<unknown>, wanted: unknown, why: string): Promise<void> {
  const since = performance.now();
  await eventually(10, async () => {
    const answer = await ask();
    return answer === wanted ? null : `answered ${String(answer)}`;
  });
  const took = Math.round(performance.now() - since);
  t.ok(took < BOUND, `${why}: answered ${String(wanted)} after ${took} ms`);
  t.equal(await ask(), wanted);
}

const refuses = (t: Test, { url }: Service, token: string, why: string) =>
  answers(t, () => verifyOver(url, token), 401, why);

/** The user's name as this replica knows it, and how the user changes it. */
async function nameOver({ url }: Service, token: string, name?: string): Promise<unknown> {
  const response = await fetch(`${url}/api/user`, {
    method: name === undefined ? 'GET' : 'PATCH',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    ...(name !== undefined && { body: JSON.stringify({ name }) }),
  });
  return ((await response.json()) as { name?: string }).name ?? response.status;
}

interface Holder {
  service: Service;
  redis: Awaited<ReturnType<typeof protocolProxy>>;
  database: FaultProxy;
}

const WAYS: Record<string, (holder: Holder) => void> = {
  lives: () => undefined,
  'is killed': ({ service }) => signal(service, 'SIGKILL'),
  'is stopped': ({ service }) => signal(service, 'SIGSTOP'),
  'is cut off from Redis': ({ redis }) => {
    redis.cut();
  },
  'is cut off from PostgreSQL': ({ database }) => {
    database.set('hang');
  },
};

for (const [way, strike] of Object.entries(WAYS)) {
  test(
    `a proxy swaps servers, which loses a tombstone and a name, and the holder of the lease ${way}`,
    { skip },
    async (t) => {
      const { url } = await testDatabase(t);
      const { master, copy, promote } = await twoServers(t);
      const start = async (): Promise<Holder> => {
        const [redis, database] = [await protocolProxy(t, master), await faultProxy(t, url)];
        const env = { DATABASE_URL: database.url, REDIS_URL: redis.url, REDIS_TIMEOUT: '2000' };
        return { redis, database, service: await readyService(t, env) };
      };
      const first = await start();
      await until(async () => (await holderOn(master)) !== 'null');
      const firstName = await holderOn(master);
      const second = await start();
      const { access_token: token } = await signUpOver(first.service.url);
      const { access_token: renamed } = await signUpOver(first.service.url);
      for (const { service } of [first, second]) t.equal(await verifyOver(service.url, token), 200);
      await promote();
      await nameOver(second.service, renamed, 'Countess');
      await ended(t, url, second.service, token);
      await sleep(NOT_NEW);
      t.equal(await verifyOver(first.service.url, token), 401);

      const isFirst = (await holderOn(master)) === firstName;
      const [holder, other] = isFirst ? [first, second] : [second, first];
      const logged = other.service.log().length;
      strike(holder);
      t.teardown(() => {
        try {
          signal(holder.service, 'SIGCONT');
        } catch {
          // It was killed.
        }
      });
      await Promise.all([first, second].map(({ redis }) => redis.swap(copy)));
      t.equal(await copy.ask('EXISTS', 'latchkey:renewer'), 1, 'the lease was copied');
      await Promise.all([
        refuses(t, other.service, token, way),
        answers(t, () => nameOver(other.service, renamed), 'Countess', way),
      ]);
      t.notMatch(other.service.log().slice(logged), /Redis/, 'its connection stayed open');
    },
  );
}

test('a replica stays on the old master', { skip }, async (t) => {
  const { url } = await testDatabase(t);
  const { master, copy, promote } = await twoServers(t);
  const DATABASE_URL = url;
  const old = await readyService(t, { DATABASE_URL, REDIS_URL: master.url });
  await until(async () => (await holderOn(master)) !== 'null');
  const oldName = await holderOn(master);
  const proxy = await faultProxy(t, master.url);
  const others = [
    await readyService(t, { DATABASE_URL, REDIS_URL: proxy.url }),
    await readyService(t, { DATABASE_URL, REDIS_URL: proxy.url }),
  ] as const;
  const [one, two] = others;
  const tokens: string[] = [];
  for (let i = 0; i < 4; i++) tokens.push((await signUpOver(one.url)).access_token);
  await promote();
  proxy.retarget(copy.url);
  proxy.set('refuse');
  proxy.set('pass');
  for (const { url: to } of others) {
    await eventually(20, async () => {
      const statuses = await Promise.all(tokens.map((token) => verifyOver(to, token)));
      return statuses.every((status) => status === 200) ? null : `answered ${statuses.join()}`;
    });
  }
  t.equal(await logOutOver(old.url, tokens[0] ?? ''), 200);
  for (const each of others) await refuses(t, each, tokens[0] ?? '', 'who held the lease is on the old one');
  t.equal(await holderOn(master), oldName, 'and renews there');
  t.not(await holderOn(copy), oldName);

  for (const [i, stopped] of others.entries()) {
    const token = tokens[i + 1] ?? '';
    const goesOn = others[1 - i] ?? one;
    signal(stopped, 'SIGSTOP');
    t.equal(await logOutOver(old.url, token), 200);
    await refuses(t, goesOn, token, 'the other one is stopped');
    signal(stopped, 'SIGCONT');
    await refuses(t, stopped, token, 'back again');
  }
  // Since the second was stopped, the first one holds the lease.
  signal(one, 'SIGKILL');
  const last = tokens[3] ?? '';
  t.equal(await logOutOver(old.url, last), 200);
  await refuses(t, two, last, 'the holder is killed');
  t.equal(await holderOn(master), oldName);
});
