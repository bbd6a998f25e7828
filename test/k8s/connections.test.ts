import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { FIELDS } from '../../src/config/fields.ts';
import { latchkey } from '../support/latchkey.ts';
import { testDatabase, withClient } from '../support/postgres.ts';
import { toolsMissing } from '../support/tools.ts';
import { allOf, only, variablesOf, type Manifest } from './kinds.ts';
import { OVERLAYS, render, renderWith, ROOT } from './render.ts';

const skip = toolsMissing('kubectl');
/** On one line, because the sums may be wrapped. */
const README = readFileSync(join(ROOT, 'k8s/README.md'), 'utf8').replaceAll(/\s+/g, ' ');

/** PostgreSQL's default of `superuser_reserved_connections`. */
const RESERVED = 3;
/** PostgreSQL's default of max_connections. */
const DEFAULT_LIMIT = 100;
/** Connections of each replica besides its pool: the readiness check uses its own. */
const PROBE = 1;
/** Connections of the jobs, shown below. */
const MIGRATE = 2;
const PURGE = 1;

for (const overlay of OVERLAYS) {
  test(`all pods of overlays/${overlay} at once fit into the connection limit`, { skip }, (t) => {
    const manifests = render(`k8s/overlays/${overlay}`);
    const { replicas, surge, ending } = pods(manifests);
    const pool = FIELDS.DATABASE_POOL.schema.parse(variablesOf(manifests).DATABASE_POOL);
    const sum = (replicas + surge + ending) * (pool + PROBE) + MIGRATE + PURGE;
    const limit = limitOf(manifests) - RESERVED;
    const text = `(${replicas} + ${surge} + ${ending}) x (${pool} + ${PROBE}) + ${MIGRATE} + ${PURGE} = ${sum}`;
    t.ok(sum <= limit, `${text} of ${limit}`);
    t.match(README, `\`${overlay}\` `);
    t.match(README, text, 'the README has the sum');
    t.match(README, `${limit}: `, 'and the limit');
    t.end();
  });
}

test('with PgBouncer PostgreSQL gets only its pools, and PgBouncer accepts all replicas', { skip }, (t) => {
  const manifests = renderWith(t, 'k8s/overlays/production', ['pgbouncer']);
  const bouncer = only(manifests, 'Deployment', 'pgbouncer').spec;
  const ini = allOf(manifests, 'ConfigMap').find(({ data }) => 'pgbouncer.ini' in data)?.data[
    'pgbouncer.ini'
  ];
  const setting = (name: string) => Number(new RegExp(`^${name} = (\\d+)$`, 'm').exec(ini ?? '')?.[1]);
  const { replicas = 1, strategy } = bouncer;
  const ending = endingAtOnce(bouncer, replicas);
  const { maxSurge } = strategy.rollingUpdate;
  const pool = setting('default_pool_size');
  const sum = (replicas + maxSurge + ending) * pool + MIGRATE + PURGE;
  const text = `(${replicas} + ${maxSurge} + ${ending}) x ${pool} + ${MIGRATE} + ${PURGE} = ${sum}`;
  t.ok(sum <= DEFAULT_LIMIT - RESERVED, text);
  t.match(README, text, 'the README has the sum');

  const all = pods(manifests);
  const clients =
    (all.replicas + all.surge + all.ending) * (FIELDS.DATABASE_POOL.schema.parse(undefined) + PROBE);
  t.ok(clients <= setting('max_client_conn'), `${clients} clients`);
  t.match(README, `${setting('max_client_conn')} connections may come in`);
  t.end();
});

test('migrate opens two connections at once', async (t) => {
  const { url } = await testDatabase(t, { migrated: false });
  t.match(await latchkey(['migrate'], { DATABASE_URL: await limited(t, url, MIGRATE - 1) }), {
    code: 1,
    stderr: /too many connections/,
  });
  t.match(await latchkey(['migrate'], { DATABASE_URL: await limited(t, url, MIGRATE) }), {
    code: 0,
    stdout: /applied /,
  });
});

test('purge opens one', async (t) => {
  const { url } = await testDatabase(t);
  t.match(await latchkey(['purge'], { DATABASE_URL: await limited(t, url, PURGE) }), {
    code: 0,
    stdout: 'purged 0 records',
  });
});

/** The most pods of the service during a rollout at the autoscaler's maximum. */
function pods(manifests: Manifest[]): { replicas: number; surge: number; ending: number } {
  const { spec } = only(manifests, 'Deployment', 'latchkey');
  const { maxReplicas: replicas } = only(manifests, 'HorizontalPodAutoscaler').spec;
  return { replicas, surge: spec.strategy.rollingUpdate.maxSurge, ending: endingAtOnce(spec, replicas) };
}

/** Old pods end one (maxSurge) per minReadySeconds, and each may use its grace period. */
function endingAtOnce(
  { minReadySeconds, strategy, template }: ReturnType<typeof only<'Deployment'>>['spec'],
  replicas: number,
): number {
  const { terminationGracePeriodSeconds: grace = 30 } = template.spec;
  return Math.min(replicas, Math.ceil(grace / minReadySeconds) * strategy.rollingUpdate.maxSurge);
}

function limitOf(manifests: Manifest[]): number {
  const [postgres] = allOf(manifests, 'StatefulSet');
  if (!postgres) return DEFAULT_LIMIT;
  const args = postgres.spec.template.spec.containers[0]?.args?.join(' ') ?? '';
  return Number(/max_connections=(\d+)/.exec(args)?.[1]);
}

/** The database, with a user limited to this many connections. */
async function limited(t: Test, url: string, connections: number): Promise<string> {
  const name = `lk_test_${randomBytes(6).toString('hex')}`;
  await withClient(url, (client) =>
    client.query(`CREATE ROLE ${name} LOGIN PASSWORD '${name}' CONNECTION LIMIT ${connections};
      GRANT ALL ON SCHEMA public TO ${name};
      GRANT ALL ON ALL TABLES IN SCHEMA public TO ${name}`),
  );
  t.teardown(() =>
    withClient(url, (client) =>
      client.query(`REASSIGN OWNED BY ${name} TO CURRENT_USER; DROP OWNED BY ${name}; DROP ROLE ${name}`),
    ),
  );
  const limited = new URL(url);
  limited.username = name;
  limited.password = name;
  return limited.href;
}
