import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createSecureContext, type SecureContextOptions } from 'node:tls';
import { test, type Test } from 'tap';
import { ConfigError, loadConfig, type Config, type Environment } from '../../src/config/config.ts';
import { transportWarnings } from '../../src/config/transport.ts';
import { makeTrustedProxies } from '../../src/http/caller/address.ts';
import { connectionOf, targetOf as databaseOf } from '../../src/infra/postgres/connection.ts';
import { makePostgres } from '../../src/infra/postgres/client.ts';
import { openRedis, targetOf as redisOf } from '../../src/infra/redis/connection/open-redis.ts';
import { openTracing } from '../../src/infra/tracing/open-tracing.ts';
import pg from 'pg';
import { makeCertificates } from '../support/certificates.ts';
import { testFolder } from '../support/folder.ts';
import { toolsMissing } from '../support/tools.ts';

/** What an operator may paste by mistake, for a variable of any kind. */
const ANYTHING = [
  '%zz',
  '%ff',
  '[',
  '://',
  ' ',
  '\0',
  'a\r\nb',
  'ключ',
  '😀',
  '%',
  ',',
  'a,,b',
  '-1',
  '1e9',
  'NaN',
  '{}',
  'http://',
  'http://[::1',
  'http://h:99999',
  'http://a b',
  'https://bücher.example',
  ' https://x ',
  'https://x\ny',
  'https://u:p%zz@x',
  'http://%zz',
  'https://x/%zz',
  '10.0.0.0/8,fe80::1%eth0',
  '::%eth0/0',
  '1.2.3.4/032',
  '::ffff:1.2.3.4/8',
  'a',
  'a=',
  '=x',
  'a=b=c',
  'a=%zz',
  'a=%0d%0ax',
  'a=%E2%82%AC',
  'ключ=x',
  'a b=c',
  'a=b;c=d',
  'a=b,',
  '__proto__=x',
];

const AUTHORITIES = [
  'h',
  'app:p%zz@h',
  'app:%ff@h',
  '%ff:p@h',
  'a%00b:p@h',
  'a@b@h',
  'u:p:q@h',
  ':@h',
  'h:0',
  'h:99999',
  'h:x',
];
AUTHORITIES.push(
  '[::1',
  '[::1]',
  '[fe80::1%25eth0]',
  '%ff',
  '%00',
  'a%20b',
  'b%C3%BCcher.example',
  'bücher.example',
  '',
  'x_1',
);
const PATHS = ['', '/', '/1', '/abc', '/%ff', '/%zz', '/%00', '/999999', '/1/2', '/1?x=%zz', '/1#x'];

/** Each variable whose value another library or a later step reads, with values in its own form. */
function valuesOf(folder: string): Record<string, string[]> {
  const { ca, certFile, keyFile, caFile } = makeCertificates(folder, 'hostile');
  const garbage = join(folder, 'garbage.pem');
  writeFileSync(garbage, '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n');
  const pem = [ca, `x\n${ca}`, `${ca}${ca}`, ca.replace('BEGIN', 'begin'), ca.replace(/-----BEGIN.*\n/, '')];
  pem.push(
    ca.replace(/-----END[^]*/, ''),
    ca.replace(/\n\w{20}/, '\n!'),
    `${ca}-----BEGIN CERTIFICATE-----\n`,
  );
  const urls = (scheme: string) =>
    AUTHORITIES.flatMap((authority) => PATHS.map((path) => `${scheme}://${authority}${path}`));
  const files = [
    `sslcert=${certFile}&sslkey=${keyFile}`,
    `sslcert=${certFile}&sslkey=${caFile}`,
    `sslcert=${garbage}&sslkey=${keyFile}`,
    `sslrootcert=${caFile}`,
    `sslrootcert=${garbage}`,
    `sslrootcert=${keyFile}`,
    'sslmode=verify-ca&uselibpqcompat=true',
    'port=x',
    'port=0',
    'port=',
    'user=%00',
    'host=%00',
    'sslmode=bogus',
    'ssl=bogus',
    'sslnegotiation=x',
    'password=%ff',
  ].map((query) => `postgres://h/d?${query}`);
  return {
    REDIS_URL: urls('redis'),
    DATABASE_URL: [...urls('postgres'), ...files],
    REDIS_CA: pem,
    DATABASE_CA: pem,
    REDIS_NODES: ['h:1', 'h:0', '[::::]:1', '[::1]:1', '[::1%eth0]:1', 'h:1,,h:2', '1.2.3:1', 'bücher:1'],
    TRUST_PROXY: [],
    RATE_LIMIT_ALLOW: [],
    CORS_ORIGINS: [],
    ISSUER: [],
    REFRESH_TOKEN_SECRET: [],
    OTEL_EXPORTER_OTLP_ENDPOINT: [],
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: [],
    OTEL_EXPORTER_OTLP_HEADERS: [],
    OTEL_EXPORTER_OTLP_TRACES_HEADERS: [],
  };
}

/** What the variable needs beside it. */
const WITH: Readonly<Record<string, Environment>> = {
  REDIS_CA: { REDIS_URL: 'rediss://h' },
  REDIS_NODES: { REDIS_URL: 'redis://h', REDIS_MODE: 'cluster' },
  DATABASE_CA: { DATABASE_URL: 'postgres://h/d?sslmode=verify-full' },
  OTEL_EXPORTER_OTLP_HEADERS: { OTEL_TRACES_EXPORTER: 'otlp' },
  OTEL_EXPORTER_OTLP_TRACES_HEADERS: { OTEL_TRACES_EXPORTER: 'otlp' },
};

/** All that a start makes of the values, short of a connection. */
async function makeAll(config: Config): Promise<void> {
  const { REDIS_URL, DATABASE_URL: url, DATABASE_CA: ca } = config;
  transportWarnings({ ...config, production: true });
  makeTrustedProxies(config.TRUST_PROXY ?? []);
  for (const pem of [config.REDIS_CA, ca]) createSecureContext(pem === undefined ? {} : { ca: pem });
  if (REDIS_URL) {
    const redis = openRedis({ ...config, REDIS_URL });
    redisOf({ ...config, REDIS_URL });
    redis.disconnect();
  }
  if (url !== undefined) {
    databaseOf(url);
    const { host, port, ssl } = new pg.Client(connectionOf(url, ca));
    createSecureContext(Object(ssl) as SecureContextOptions);
    if (!Number.isInteger(port) || host.includes('\0')) throw new TypeError('pg would connect to nothing');
    await makePostgres({ url, ca, pool: 1, timeout: 1000, observe: null }).close();
  }
  const tracing = await openTracing(config.tracing && { ...config.tracing, onError: () => undefined });
  new Headers(Object.entries(config.tracing?.headers ?? {}));
  new URL(config.tracing?.url ?? config.ISSUER);
  await tracing?.close();
}

/** @returns what is wrong with how the value is taken; null if it works or is refused by name. */
async function faultOf(name: string, value: string, env: Environment): Promise<string | null> {
  try {
    await makeAll(loadConfig(env, 2 ** 40));
    return null;
  } catch (error) {
    if (!(error instanceof ConfigError)) return `is accepted, and then: ${String(error)}`;
    const [problem = '', ...others] = error.problems;
    // Several issues of one value are one problem. REDIS_CA also needs a good REDIS_URL.
    if (!problem.startsWith(`${name} `) && !problem.startsWith(`${name}: `))
      return `is refused as: ${problem}`;
    if (others.length > 0) return `has several problems: ${error.problems.join('; ')}`;
    return value.length > 8 && problem.includes(value) ? 'is repeated, and may be a secret' : null;
  }
}

test(
  'each value is refused by the name of its variable, or everything takes it that a start makes of it',
  { skip: toolsMissing('openssl') },
  async (t: Test) => {
    for (const [name, own] of Object.entries(valuesOf(testFolder(t)))) {
      const faults: string[] = [];
      for (const value of [...own, ...ANYTHING]) {
        const fault = await faultOf(name, value, { ...WITH[name], [name]: value });
        if (fault !== null) faults.push(`${JSON.stringify(value)} ${fault}`);
      }
      t.strictSame(faults, [], name);
    }
  },
);
