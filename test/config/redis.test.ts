import { rootCertificates } from 'node:tls';
import { test } from 'tap';
import { loadConfig, type Environment } from '../../src/config/config.ts';
import { problemsOf } from '../support/config-problems.ts';

const [CA = ''] = rootCertificates;

test('Redis can be one server, a master behind Sentinels, or a cluster', (t) => {
  const secret = 'user:pass@';
  const nodes = { REDIS_NODES: 'a.internal:1, 10.0.0.2:26379,[fd00::1]:3' };
  const sentinel = { REDIS_MODE: 'sentinel', REDIS_SENTINEL_NAME: 'main', ...nodes };
  const good: Environment[] = [
    { REDIS_URL: 'redis://localhost' },
    { REDIS_URL: `rediss://${secret}[::1]:6380/15`, REDIS_CA: CA },
    { REDIS_URL: `redis://${secret}main/2`, ...sentinel },
    { REDIS_URL: 'redis://main', ...sentinel, REDIS_SENTINEL_USERNAME: 'u', REDIS_SENTINEL_PASSWORD: 'p' },
    { REDIS_URL: `rediss://${secret}cluster/0`, REDIS_MODE: 'cluster', ...nodes },
  ];
  for (const env of good) t.strictSame(problemsOf(env), [], JSON.stringify(env));
  t.strictSame(loadConfig({ REDIS_URL: 'redis://main', ...sentinel }).REDIS_NODES, [
    { host: 'a.internal', port: 1 },
    { host: '10.0.0.2', port: 26379 },
    { host: 'fd00::1', port: 3 },
  ]);
  t.end();
});

test('all contradictory settings are reported together', (t) => {
  t.match(problemsOf({ REDIS_MODE: 'sentinel' }), [
    /^REDIS_URL is required with REDIS_MODE=sentinel/,
    /^REDIS_NODES is required with REDIS_MODE=sentinel/,
    /^REDIS_SENTINEL_NAME is required/,
  ]);
  t.match(problemsOf({ REDIS_MODE: 'cluster', REDIS_URL: 'redis://x/1', REDIS_SENTINEL_NAME: 'main' }), [
    /^REDIS_NODES is required with REDIS_MODE=cluster/,
    /^REDIS_SENTINEL_NAME needs REDIS_MODE=sentinel/,
    /^REDIS_URL must not name a database/,
  ]);
  t.match(
    problemsOf({
      REDIS_URL: 'redis://localhost',
      REDIS_NODES: 'a:1',
      REDIS_SENTINEL_USERNAME: 'u',
      REDIS_SENTINEL_PASSWORD: 'p',
      REDIS_CA: CA,
    }),
    [
      /^REDIS_NODES needs REDIS_MODE/,
      /^REDIS_SENTINEL_USERNAME needs/,
      /^REDIS_SENTINEL_PASSWORD needs/,
      /^REDIS_CA needs/,
    ],
  );
  for (const nodes of ['a', 'a:', ':1', 'a:99999', 'a:1;b:2', 'redis://a:1', 'a:1,b']) {
    t.match(problemsOf({ REDIS_NODES: nodes }), [/^REDIS_NODES must be HOST:PORT/], nodes);
  }
  t.match(problemsOf({ REDIS_MODE: 'Cluster' }), [/^REDIS_MODE must be/]);
  // Node would skip these, and then trust nobody.
  for (const ca of ['ca.pem', `${CA}\n-----BEGIN CERTIFICATE-----\nMIIB`, CA.replace('MII', 'MIJ')])
    t.match(problemsOf({ REDIS_URL: 'rediss://x', REDIS_CA: ca }), [/^REDIS_CA must be certificates/], ca);
  t.end();
});
