import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { readConfiguration } from '../../packages/agent/src/configuration.ts';
import { type Config, DATABASE_SETTINGS, loadConfig, loadSettings } from '../../src/config/config.ts';
import { makeCertificates } from '../support/certificates.ts';
import { toolsMissing } from '../support/tools.ts';
import { asJob, CASES, isTest, template } from './chart.ts';
import { allOf, type Labels, type Manifest, only, workloadsOf } from './kinds.ts';
import { makeMounts, variablesIn } from './mounts.ts';
import { isAllowed } from './network.ts';
import { scratch } from './render.ts';
import { madeSecrets, type Secrets } from './secrets.ts';

const skip = toolsMissing('helm', 'kubectl', 'bash', 'openssl');

const FACTOR_KEYS = Buffer.alloc(32, 1).toString('base64url');

test('the service starts with the variables of every case', { skip }, (t) => {
  const secrets = storesWithTls(t);
  const configs = new Map(CASES.map((name) => [name, configOf(t, name, secrets)]));
  for (const [name, { production, embedded }] of configs)
    t.strictSame({ production, embedded }, { production: true, embedded: [] }, name);
  const nodes = [0, 1, 2].map((i) => ({ host: `redis-${i}.redis`, port: 26379 }));
  t.match(configs.get('sentinel'), {
    REDIS_MODE: 'sentinel',
    REDIS_NODES: nodes,
    REDIS_SENTINEL_NAME: 'main',
    REDIS_SENTINEL_USERNAME: 'latchkey-sentinel',
    REDIS_SENTINEL_PASSWORD: 'of the sentinels',
  });
  t.match(configs.get('cluster'), {
    REDIS_MODE: 'cluster',
    REDIS_NODES: nodes.map((node) => ({ ...node, port: 6379 })),
  });
  const [ca, redisCa] = [secrets.latchkey?.['database-ca'], secrets.latchkey?.['redis-ca']];
  t.match(configs.get('tls'), { DATABASE_CA: ca?.trim(), REDIS_CA: redisCa?.trim(), FACTOR_KEYS });
  t.equal(configs.get('minimal')?.FACTOR_KEYS, undefined);
  t.equal(configs.get('minimal')?.DATABASE_CA, undefined);
  t.match(configs.get('no-network-policy'), { REFRESH_TOKEN_TTL: 2_592_000, SIGNUP_ENABLED: false });
  t.match(configs.get('single-replica'), { LOG_LEVEL: 'debug', DOCS_ENABLED: true });
  t.end();
});

/** The README's Secrets, also under the names of the case `service-account`. */
function storesWithTls(t: Test): Secrets {
  const secrets = madeSecrets(t);
  const { ca } = makeCertificates(scratch(t), 'stores');
  const service = {
    ...secrets.latchkey,
    'database-url': 'postgres://latchkey@postgres/latchkey?sslmode=verify-full',
    'database-ca': ca,
    'redis-url': 'rediss://redis',
    'redis-ca': ca,
    'redis-sentinel-password': 'of the sentinels',
    'factor-keys': FACTOR_KEYS,
  };
  const { 'latchkey-owner': owner = {}, 'latchkey-signing-keys': keys = {} } = secrets;
  return { ...secrets, latchkey: service, auth: service, 'auth-owner': owner, 'auth-keys': keys };
}

function configOf(t: Test, name: string, secrets: Secrets): Config {
  const manifests = withMaps(name);
  const { spec } = only(manifests, 'Deployment').spec.template;
  const variables = variablesIn(makeMounts(scratch(t), secrets), spec, manifests);
  return loadConfig({ NODE_ENV: 'production', ...variables }, 768 * 1024 ** 2);
}

test('the agent of a listed service starts, and reaches Latchkey', { skip }, (t) => {
  const manifests = template('agent');
  const maps = allOf(manifests, 'ConfigMap').filter(({ metadata }) => metadata.name === 'latchkey-agent');
  const file = join(t.testdir(), 'token');
  writeFileSync(file, 'x');
  t.strictSame(
    maps.map(({ metadata, data }) => {
      const { verifier } = readConfiguration({ ...data, LATCHKEY_CLIENT_TOKEN_FILE: file });
      return [metadata.namespace, verifier.url, verifier.issuer, verifier.audience, verifier.accept];
    }),
    [
      [
        'orders',
        'http://latchkey.latchkey:3000',
        'https://auth.example.com',
        'orders',
        ['access', 'service'],
      ],
      ['shop', 'http://latchkey.latchkey:3000', 'https://auth.example.com', 'shop', ['access', 'llt']],
    ],
  );
  const server = {
    namespace: 'latchkey',
    labels: podLabels(manifests, 'Deployment'),
    ports: { api: 3000, ops: 9464 },
  };
  const reaches = (namespace: string, port: number) =>
    isAllowed(manifests, 'latchkey', { namespace, labels: {} }, server, port);
  t.strictSame(
    ['orders', 'shop', 'other'].map((namespace) => reaches(namespace, 3000)),
    [true, true, false],
  );
  t.notOk(reaches('orders', 9464));

  const pod = { namespace: 'latchkey', labels: podLabels(manifests, 'Pod') };
  t.ok(isAllowed(manifests, 'latchkey', pod, server, 9464), 'so does the pod of `helm test`');
  const outside = manifests.filter((manifest) => !isTest(manifest));
  t.notOk(isAllowed(outside, 'latchkey', pod, server, 9464), 'outside the test, no pod of the release does');
  t.end();
});

function podLabels(manifests: Manifest[], kind: 'Deployment' | 'Pod'): Labels {
  const workload = workloadsOf(manifests.filter((it) => it.kind === kind).map(asJob))[0];
  if (!workload) throw new Error(`there is no ${kind}`);
  return workload.template.metadata.labels;
}

test('the configuration of every command of a company loads, with its client certificate', { skip }, (t) => {
  const { certFile, keyFile } = makeCertificates(scratch(t), 'client');
  const client = { 'tls.crt': readFileSync(certFile, 'utf8'), 'tls.key': readFileSync(keyFile, 'utf8') };
  const manifests = withMaps('company');
  const workloads = workloadsOf(manifests);
  t.equal(workloads.length, 5);
  for (const { name, template: pod } of workloads) {
    const secrets: Secrets = { ...storesWithTls(t), 'postgres-client': client };
    const mounts = makeMounts(scratch(t), secrets);
    const mount = pod.spec.containers[0]?.volumeMounts?.find(
      ({ mountPath }) => mountPath === '/etc/postgres',
    );
    const volume = pod.spec.volumes?.find((each) => each.name === mount?.name)?.secret;
    const folder = volume ? mounts.folderOf(volume) : 'nowhere';
    const url = `postgres://latchkey@db/latchkey?sslcert=${folder}/tls.crt&sslkey=${folder}/tls.key`;
    for (const secret of ['latchkey', 'latchkey-owner'])
      Object.assign(secrets[secret] ?? {}, { 'database-url': url });
    mounts.put(secrets);
    const variables = variablesIn(mounts, pod.spec, manifests);
    t.equal(loadSettings(variables, ...DATABASE_SETTINGS).DATABASE_URL, url, name);
    t.match(variables, { NODE_EXTRA_CA_CERTS: '/etc/company/ca.pem', HTTPS_PROXY: /^http:/ }, name);
    if (['latchkey-migrate', 'latchkey-purge', 'latchkey-drill'].includes(name)) continue;
    const { AUDIENCE, LOG_LEVEL } = loadConfig({ NODE_ENV: 'production', ...variables }, 768 * 1024 ** 2);
    t.strictSame([AUDIENCE, LOG_LEVEL], ['latchkey', 'debug'], `${name}: the chart overrules a ConfigMap`);
  }
  t.end();
});

/** A case, with the ConfigMaps that the company has. */
function withMaps(name: string): Manifest[] {
  const maps = [
    { name: 'company-defaults', data: { AUDIENCE: 'overruled', LOG_LEVEL: 'debug' } },
    { name: 'company-ca', data: { 'ca.pem': 'x' } },
  ].map(({ name, data }) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data }));
  return [...template(name), ...(name === 'company' ? maps : [])];
}
