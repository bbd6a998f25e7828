import { test } from 'tap';
import { transportWarnings } from '../../src/config/transport.ts';
import { redisServer } from '../support/redis.ts';

const SAFE = {
  production: true,
  REDIS_MODE: 'single' as const,
  REDIS_NODES: [] as { host: string; port: number }[],
  REDIS_URL: redisServer('rediss://latchkey:hunter2@redis.internal:6380'),
  DATABASE_URL: 'postgres://latchkey:hunter2@db.internal/latchkey?sslmode=verify-full',
  DATABASE_CA: undefined,
  ISSUER: 'https://auth.example.com',
};

const variables = (settings: Partial<typeof SAFE> | object) =>
  transportWarnings({ ...SAFE, ...settings }).map(({ variable }) => variable);

test('TLS on every connection gives no warning', (t) => {
  t.strictSame(variables({}), []);
  t.end();
});

test('each connection to another host without TLS gives a warning, without the value', (t) => {
  const plain = {
    REDIS_URL: redisServer('redis://latchkey:hunter2@redis.internal'),
    DATABASE_URL: 'postgres://latchkey:hunter2@db.internal/latchkey',
    ISSUER: 'http://auth.example.com',
  };
  t.strictSame(variables(plain), ['REDIS_URL', 'DATABASE_URL', 'ISSUER']);
  t.notMatch(JSON.stringify(transportWarnings({ ...SAFE, ...plain })), /hunter2|internal|example/);
  t.strictSame(
    transportWarnings({ ...SAFE, ...plain, production: false }),
    [],
    'no warnings outside production',
  );
  t.end();
});

test('Redis: a local connection needs no TLS, and the nodes take precedence over the URL', (t) => {
  for (const host of ['localhost', 'redis.localhost', '127.0.0.1', '127.1.2.3', '[::1]', ''])
    t.strictSame(variables({ REDIS_URL: redisServer(`redis://${host}`) }), [], host);
  for (const host of ['127.example.com', '10.0.0.1', '[fd00::1]', 'localhost.example.com'])
    t.strictSame(variables({ REDIS_URL: redisServer(`redis://${host}`) }), ['REDIS_URL'], host);
  const cluster = (...hosts: string[]) => ({
    REDIS_URL: redisServer('redis://cluster'),
    REDIS_MODE: 'cluster',
    REDIS_NODES: hosts.map((host) => ({ host, port: 1 })),
  });
  t.strictSame(variables(cluster('127.0.0.1', '::1')), []);
  t.strictSame(variables(cluster('127.0.0.1', '10.0.0.1')), ['REDIS_URL']);
  t.strictSame(variables({ ...cluster('10.0.0.1'), REDIS_URL: redisServer('rediss://cluster') }), []);
  t.end();
});

test('PostgreSQL: the query decides about TLS, and sockets need none', (t) => {
  const url = (host: string, query = '') => ({ DATABASE_URL: `postgres://u:p@${host}/latchkey${query}` });
  for (const host of ['127.0.0.1', '[::1]', 'localhost', '%2Frun%2Fpostgresql'])
    t.strictSame(variables(url(host)), [], host);
  t.strictSame(variables({ DATABASE_URL: 'postgres:///latchkey?host=/run/postgresql' }), []);
  t.strictSame(
    variables(url('localhost', '?host=db.internal')),
    ['DATABASE_URL'],
    'the host in the query decides',
  );
  for (const query of ['?sslmode=require', '?ssl=true', '?sslrootcert=/dev/null'])
    t.strictSame(variables(url('db.internal', query)), [], query);
  for (const query of [
    '',
    '?sslmode=disable',
    '?sslmode=',
    '?ssl=0',
    '?sslmode=disable&ssl=true',
    '?connect_timeout=3',
  ])
    t.strictSame(variables(url('db.internal', query)), ['DATABASE_URL'], query);
  for (const query of ['?sslmode=no-verify', '?ssl=no-verify', '?sslmode=require&uselibpqcompat=true']) {
    const warnings = transportWarnings({ ...SAFE, ...url('db.internal', query) });
    t.match(warnings, [{ variable: 'DATABASE_URL', found: /any certificate/ }], query);
  }
  t.end();
});
