import { once } from 'node:events';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { Redis } from 'ioredis';
import { test, type Test } from 'tap';
import { JWT_BEARER } from '../../src/http/auth/token.ts';
import { buildTestApp, type TestApp } from '../support/app.ts';
import { audienceClients, exchange, exchanged } from '../support/audiences.ts';
import {
  call,
  createLimited,
  createLongLived,
  pairOf,
  refresh,
  signUp,
  verify,
  verifyInScope,
  type Pair,
} from '../support/client.ts';
import { parseExposition } from '../support/exposition.ts';
import { fakeIssuer, SUBJECT } from '../support/fake-issuer.ts';
import { aRegisteredService, basic, introspect, withRegistry } from '../support/registered-service.ts';
import { askServiceToken, postAsService, serviceToken } from '../support/service-tokens.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { sql } from '../support/sql.ts';
import { until } from '../support/until.ts';

/** By default. */
const ISSUER = 'http://localhost:3000';

/** Background work adds to a try now and then, so the smallest count of a few tries is the request's own. */
const TRIES = 5;

interface Traffic {
  /** Commands to Redis; what a script does inside Redis is one command. */
  redis: number;
  /** Statements to PostgreSQL, those that begin and end a transaction included. */
  postgres: number;
}

/**
 * The commands that Redis receives for keys with this prefix. Reads MONITOR's lines from a socket: ioredis fails if
 * another client's command arrives with the answer to MONITOR.
 */
async function watchCommands(t: Test, url: string, prefix: string) {
  const client = new Redis(url);
  const { hostname, port } = new URL(url);
  const monitor = connect(Number(port), hostname);
  t.teardown(() => {
    monitor.destroy();
    client.disconnect();
  });
  let count = 0;
  const waiting = new Map<string, () => void>();
  monitor.write('MONITOR\r\n');
  createInterface({ input: monitor }).on('line', (line) => {
    const words = [...line.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, word = '']) => word);
    waiting.get(words[1] ?? '')?.();
    if (!/^\S+ \[\d+ lua\]/.test(line) && words.some((word) => word.startsWith(prefix))) count++;
  });
  await once(monitor, 'data');
  let marks = 0;
  return {
    /** The count, once Redis has reported all commands so far. */
    async count(): Promise<number> {
      const mark = `mark-${++marks}-${prefix}`;
      const seen = new Promise<void>((resolve) => waiting.set(mark, resolve));
      await client.echo(mark);
      await seen;
      return count;
    },
  };
}

async function statements({ composition }: TestApp): Promise<number> {
  const metric = parseExposition(await composition.ops.metrics()).get(
    'latchkey_postgres_statement_duration_seconds',
  );
  const counts = metric?.samples.filter(({ name }) => name.endsWith('_count')) ?? [];
  return counts.reduce((sum, { value }) => sum + value, 0);
}

async function pendingOf(databaseUrl: string): Promise<number> {
  return (await sql(databaseUrl, 'SELECT FROM tokens WHERE pending')).length;
}

test('each request asks the stores as rarely as it can', { skip: redisMissing }, async (t) => {
  const { url, prefix } = testRedis(t);
  const target = await buildTestApp(t, { env: { REDIS_URL: url, REDIS_PREFIX: prefix } });
  const commands = await watchCommands(t, url, prefix);

  // A scrape asks PostgreSQL whether it works.
  const first = await statements(target);
  const perScrape = (await statements(target)) - first;

  /** @param prepare makes what the request needs. */
  async function trafficOf<Needs>(
    prepare: () => Promise<Needs>,
    request: (needs: Needs) => Promise<{ statusCode: number }>,
  ): Promise<Traffic> {
    const tries: Traffic[] = [];
    for (let i = 0; i < TRIES; i++) {
      const needs = await prepare();
      const before = { redis: await commands.count(), postgres: await statements(target) };
      t.equal((await request(needs)).statusCode, 200);
      tries.push({
        redis: (await commands.count()) - before.redis,
        postgres: (await statements(target)) - before.postgres - perScrape,
      });
    }
    return {
      redis: Math.min(...tries.map(({ redis }) => redis)),
      postgres: Math.min(...tries.map(({ postgres }) => postgres)),
    };
  }

  const pair = () => signUp(target);
  const used = async (): Promise<Pair> => {
    const opened = await pair();
    await verify(target, opened.access_token);
    return opened;
  };
  const llt = async () => createLongLived(target, (await pair()).access_token);
  const by = (line: string) => (opened: Pair) => call(target, line, { token: opened.access_token });

  t.strictSame(await trafficOf(used, by('GET /api/auth/verify')), { redis: 1, postgres: 0 }, 'verify');
  t.strictSame(await trafficOf(pair, by('GET /api/auth/verify')), { redis: 1, postgres: 0 }, 'first use');
  t.strictSame(
    await trafficOf(llt, ({ longlived_token: token }) => verify(target, token)),
    { redis: 1, postgres: 0 },
    'verify of a long-lived token',
  );
  const limited = async () => createLimited(target, (await pair()).access_token);
  t.strictSame(
    await trafficOf(limited, ({ token }) => verifyInScope(target, token)),
    { redis: 1, postgres: 0 },
    'verify with scopes',
  );
  t.strictSame(
    await trafficOf(used, ({ access_token: token }) => verifyInScope(target, token)),
    { redis: 1, postgres: 0 },
    'of an access token',
  );
  t.strictSame(
    await trafficOf(pair, async ({ refresh_token: token }) => {
      const response = await refresh(target, token);
      pairOf(response);
      return response;
    }),
    { redis: 1, postgres: 0 },
    'refresh',
  );
  const { orders } = await audienceClients(target.databaseUrl);
  const shop = await aRegisteredService(target.databaseUrl, 'shop', ['introspect', 'call:orders']);
  await serviceToken(target, shop);
  await exchanged(target, (await pair()).access_token);
  t.strictSame(
    await trafficOf(pair, ({ access_token: token }) => exchange(target, token)),
    { redis: 1, postgres: 0 },
    'exchange',
  );
  t.strictSame(
    await trafficOf(
      async () => exchanged(target, (await pair()).access_token),
      (token) => call(target, 'GET /api/auth/verify?audience=orders', { token }),
    ),
    { redis: 1, postgres: 0 },
    'verify for an audience',
  );
  const none = { redis: 0, postgres: 0 };
  const ask = () => askServiceToken(target, shop);
  t.strictSame(await trafficOf(() => Promise.resolve(), ask), none, 'a service token');
  t.strictSame(
    await trafficOf(
      () => serviceToken(target, shop),
      (token) => call(target, 'GET /api/auth/verify?audience=orders', { token }),
    ),
    none,
    'verify of a service token',
  );
  t.strictSame(
    await trafficOf(
      () => serviceToken(target, shop),
      (token) => introspect(target, orders, token),
    ),
    none,
    'introspection of a service token',
  );
  t.strictSame(
    await trafficOf(
      () => serviceToken(target, shop, ISSUER),
      (token) => postAsService(target, '/api/auth/introspect', token, { token: 'x' }),
    ),
    none,
    'a service token as bearer',
  );
  const reader = await aRegisteredService(target.databaseUrl, 'reader', ['revocations']);
  t.strictSame(
    await trafficOf(
      () => Promise.resolve(),
      () =>
        call(target, 'PUT /api/auth/revocations/readers/a-process-of-reader', {
          headers: basic(reader),
          payload: { position: 'epoch.1' },
        }),
    ),
    { redis: 0, postgres: 1 },
    'a confirmation',
  );
  const issuer = await fakeIssuer(t, { audience: ISSUER });
  await withRegistry(target.databaseUrl, (registry) =>
    registry.trust('shop', { issuer: issuer.url, subject: SUBJECT }, null),
  );
  const byAssertion = (client_assertion: string) =>
    askServiceToken(target, null, ISSUER, { client_assertion_type: JWT_BEARER, client_assertion });
  await byAssertion(await issuer.sign());
  t.strictSame(await trafficOf(() => issuer.sign(), byAssertion), none, 'an assertion');
  t.strictSame(await trafficOf(used, by('GET /api/user')), { redis: 2, postgres: 1 }, 'profile');
  const all = async (line: string, pairs: Pair[]) => {
    const [first, ...rest] = await Promise.all(pairs.map(by(line)));
    for (const { statusCode } of rest) t.equal(statusCode, 200);
    return first ?? { statusCode: 0 };
  };
  /** Until the marks are settled, behind the answers. */
  const logOutAll = async (pairs: Pair[]) => {
    const first = await all('DELETE /api/auth', pairs);
    await until(async () => (await pendingOf(target.databaseUrl)) === 0);
    return first;
  };
  t.strictSame(await trafficOf(async () => [await used()], logOutAll), { redis: 2, postgres: 2 }, 'logout');
  const many = () => Promise.all(Array.from({ length: 64 }, used));
  const logouts = await trafficOf(many, logOutAll);
  t.ok(logouts.postgres <= 3 && logouts.redis <= 4, `64 logouts at once: ${JSON.stringify(logouts)}`);
  const profiles = await trafficOf(many, (pairs) => all('GET /api/user', pairs));
  t.ok(profiles.postgres <= 4 && profiles.redis <= 8, `64 profiles at once: ${JSON.stringify(profiles)}`);
});
