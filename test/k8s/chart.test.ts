import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { parse } from 'yaml';
import { readConfiguration } from '../../packages/agent/src/configuration.ts';
import { loadConfig, type Config } from '../../src/config/config.ts';
import { makeCertificates } from '../support/certificates.ts';
import { listen } from '../support/listen.ts';
import { toolsMissing } from '../support/tools.ts';
import { CASES, CHART, helm, isTest, template, templateText, valuesFile } from './chart.ts';
import { allOf, only, workloadsOf, type Labels, type Manifest } from './kinds.ts';
import { makeMounts, variablesIn } from './mounts.ts';
import { isAllowed } from './network.ts';
import { violations } from './policy.ts';
import { readManifests, ROOT, scratch } from './render.ts';
import { madeSecrets, type Secrets } from './secrets.ts';
import { strictly } from './strict.ts';

const skip = toolsMissing('helm', 'kubectl', 'bash', 'openssl');

/** Cases that equal an overlay or a component (chart-kustomize.test.ts), whose objects policy and strict check. */
const OF_AN_OVERLAY = ['everything', 'httproute', 'ingress', 'restricted-namespace'];

/** Rules that a case breaks on purpose. */
const INTENDED: Record<string, RegExp> = {
  openshift: /: runs as no root$|: is for any controller$/,
  // The example of a sidecar is short.
  'no-network-policy': /sql-proxy: is probed$/,
  // Its digest says which.
  argocd: /: has a tag that says which$/,
};

test('the chart has the version of the package', (t) => {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
  const chart = parse(readFileSync(join(CHART, 'Chart.yaml'), 'utf8')) as Record<string, string>;
  t.match(chart, { version, appVersion: version });
  t.end();
});

test('helm refuses a cluster without `preStop.sleep`', { skip }, (t) => {
  t.throws(() => template('minimal', '--kube-version', '1.29.9'), /incompatible with Kubernetes v1\.29\.9/);
  t.doesNotThrow(() => template('minimal', '--kube-version', '1.30.0-gke.100'));
  t.end();
});

test('the README’s table of values equals the output of scripts/chart-readme.mjs', (t) => {
  const script = join(ROOT, 'scripts/chart-readme.mjs');
  const { stdout } = spawnSync(process.execPath, [script, '--print'], { encoding: 'utf8' });
  const readme = readFileSync(join(CHART, 'README.md'), 'utf8');
  t.equal(readme, stdout, 'run node scripts/chart-readme.mjs');
  t.match(readme, '| migration.mode ');
  t.end();
});

test('the chart’s rules and dashboard are those of deploy', (t) => {
  const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
  t.equal(read('charts/latchkey/files/rules.yaml'), read('deploy/prometheus/rules.yaml'));
  t.equal(
    read('charts/latchkey/files/dashboard.json'),
    read('k8s/components/monitoring/dashboard.json'),
    'run node scripts/dashboard-copy.mjs',
  );
  t.end();
});

test('helm lints every case, and renders it twice to the same bytes', { skip }, (t) => {
  t.equal(CASES.length, 15);
  for (const name of CASES) {
    const { status, stdout } = helm('lint', '--strict', CHART, '--values', valuesFile(name));
    t.equal(status, 0, `${name}: ${stdout}`);
    t.equal(templateText(name), templateText(name), name);
  }
  t.end();
});

test(
  'every object of a case that no overlay has matches its type and keeps the rules',
  { skip },
  async (t) => {
    const own = CASES.filter((name) => !OF_AN_OVERLAY.includes(name));
    t.equal(own.length, CASES.length - OF_AN_OVERLAY.length);
    const all = own.map((name) => ({ name, manifests: template(name) }));
    const objects = all.flatMap(({ name, manifests }) => manifests.map((manifest) => ({ name, manifest })));
    const foreign = objects.filter(({ manifest }) => manifest.apiVersion.startsWith('external-secrets.io/'));
    t.strictSame(
      foreign.map(({ manifest }) => manifest.metadata.name),
      ['latchkey', 'latchkey-owner', 'latchkey-signing-keys'],
      'templates in extraObjects are rendered',
    );
    const known = objects.filter((each) => !foreign.includes(each));
    const problems = await strictly(
      t,
      known.map(({ manifest }) => manifest),
    );
    for (const [i, { name, manifest }] of known.entries())
      t.strictSame(problems[i], [], `${name}: ${manifest.kind} ${manifest.metadata.name}`);
    for (const { name, manifests } of all) {
      const found = violations(manifests.map(asJob));
      const intended = INTENDED[name];
      t.strictSame(
        found.filter((problem) => !intended?.test(problem)),
        [],
        name,
      );
      if (intended) t.not(found.length, 0, `${name} breaks a rule`);
    }
  },
);

/** The pod of `helm test` follows the rules of Jobs. */
function asJob(manifest: Manifest): Manifest {
  if (manifest.kind !== 'Pod') return manifest;
  const { metadata, spec } = manifest as Manifest & { spec: object };
  const job = { backoffLimit: 0, template: { metadata, spec } };
  return Object.assign({}, manifest, { apiVersion: 'batch/v1', kind: 'Job', spec: job });
}

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
  t.match(configs.get('tls'), { DATABASE_CA: ca?.trim(), REDIS_CA: redisCa?.trim() });
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
  };
  const { 'latchkey-owner': owner = {}, 'latchkey-signing-keys': keys = {} } = secrets;
  return { ...secrets, latchkey: service, auth: service, 'auth-owner': owner, 'auth-keys': keys };
}

function configOf(t: Test, name: string, secrets: Secrets): Config {
  const manifests = template(name);
  const { spec } = only(manifests, 'Deployment').spec.template;
  const variables = variablesIn(makeMounts(scratch(t), secrets), spec, manifests);
  return loadConfig({ NODE_ENV: 'production', ...variables }, 768 * 1024 ** 2);
}

test('a Job of the release has a name for each image, a hook always the same', { skip }, (t) => {
  const nameFor = (mode: string, tag: string) =>
    only(template('minimal', '--set', `migration.mode=${mode},image.tag=${tag}`), 'Job').metadata.name;
  t.match(nameFor('job', '1.0.0'), /^latchkey-migrate-[0-9a-f]{10}$/);
  t.equal(nameFor('job', '1.0.0'), nameFor('job', '1.0.0'));
  t.not(nameFor('job', '1.0.0'), nameFor('job', '1.0.1'));
  t.equal(nameFor('hook', '1.0.0'), nameFor('hook', '1.0.1'));
  // helm renders another revision only with a cluster.
  const nameAt = (Revision: number) => {
    const at = `dict "Release" (dict "Revision" ${Revision})`;
    const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'name' } };
    const data = { name: `{{ include "latchkey.migrationName" (merge (${at}) .) }}` };
    const json = JSON.stringify([{ ...object, data }]);
    const manifests = template(
      'minimal',
      '--set',
      'migration.mode=job',
      '--set-json',
      `extraObjects=${json}`,
    );
    return only(manifests, 'ConfigMap', 'name').data.name;
  };
  t.equal(nameAt(1), only(template('minimal', '--set', 'migration.mode=job'), 'Job').metadata.name);
  t.not(nameAt(2), nameAt(1), 'an upgrade repeats a migration that has failed');
  t.strictSame(allOf(template('minimal', '--set', 'migration.mode=none'), 'Job'), []);
  const { metadata, spec } = only(template('argocd'), 'Job');
  t.match(metadata.name, /-migrate-[0-9a-f]{10}$/);
  t.strictSame(
    Object.keys(metadata.annotations ?? {})
      .map((name) => name.split('/')[0])
      .sort(),
    ['argocd.argoproj.io', 'argocd.argoproj.io'],
  );
  t.match(spec.template.spec.containers[0]?.image, /^registry\.example\.com\/latchkey@sha256:0{64}$/);
  t.end();
});

test('a hook needs nothing that Helm creates after it, but the Secret', { skip }, (t) => {
  const manifests = template('minimal');
  const { metadata, spec } = only(manifests, 'Job');
  t.match(metadata.annotations, {
    'helm.sh/hook': 'pre-install,pre-upgrade',
    'helm.sh/hook-delete-policy': 'before-hook-creation',
  });
  const { serviceAccountName, containers } = spec.template.spec;
  const account = manifests.find(
    (it) => it.kind === 'ServiceAccount' && it.metadata.name === serviceAccountName,
  );
  t.match(account?.metadata.annotations, {
    'helm.sh/hook': 'pre-install,pre-upgrade',
    'helm.sh/hook-weight': '-1',
  });
  t.equal(containers[0]?.envFrom, undefined, 'the ConfigMap comes later');
  t.end();
});

test('OpenShift chooses users and groups', { skip }, (t) => {
  for (const { name, template: pod } of workloadsOf(template('openshift'))) {
    const expected = { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } };
    t.strictSame(pod.spec.securityContext, expected, name);
  }
  t.end();
});

test('every pod gets what operators add to pods', { skip }, (t) => {
  const values = parse(readFileSync(valuesFile('no-network-policy'), 'utf8')) as Record<string, unknown>;
  const fields = ['imagePullSecrets', 'priorityClassName', 'nodeSelector', 'tolerations', 'affinity'];
  const manifests = template('no-network-policy').map(asJob);
  t.equal(workloadsOf(manifests).length, 5);
  for (const { kind, name, template: pod } of workloadsOf(manifests)) {
    const own: Record<string, unknown> = { ...pod.spec };
    for (const field of fields) t.strictSame(own[field], values[field], `${name}: ${field}`);
    const [{ env } = {}] = pod.spec.containers;
    t.strictSame(own.initContainers, values.extraInitContainers, name);
    if (name !== 'latchkey-test') t.match(env?.at(-1), (values.extraEnv as object[])[0] ?? {}, name);
    t.equal(
      pod.metadata.labels['sidecar.istio.io/inject'],
      kind === 'Deployment' ? 'false' : undefined,
      name,
    );
  }
  for (const { kind, metadata } of manifests) t.equal(metadata.labels?.team, 'identity', kind);
  const { annotations } = values.deployment as { annotations: Labels };
  t.strictSame(only(manifests, 'Deployment').metadata.annotations, annotations);
  t.end();
});

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

test('objects of two releases in one namespace have different names and pods', { skip }, (t) => {
  const [one, two] = ['latchkey', 'staging'].map((release) => {
    const { stdout } = helm('template', release, CHART, '--values', valuesFile('everything'));
    return [...stdout.matchAll(/^kind: (\w+)$[^]*?^ {2}name: (\S+)$/gm)].map(([, ...words]) =>
      words.join(' '),
    );
  });
  t.ok(one?.length && one.length === two?.length);
  t.strictSame(
    one?.filter((name) => two?.includes(name)),
    [],
  );
  t.end();
});

test('names and hosts that look like numbers or booleans stay strings', { skip }, async (t) => {
  const words = { service: '1', owner: '2', signingKeys: '3' };
  const existingSecret = Object.entries(words).map(([name, word]) => `existingSecret.${name}=${word}`);
  const others = ['fullnameOverride=true', 'serviceAccount.name=4', 'ingress.host=5', 'ingress.className=6'];
  const more = ['ingress.tlsSecret=7', 'httpRoute.hostname=8', 'httpRoute.internal.hostname=9'];
  const agent = ['agent.services[0].namespace=10', 'agent.services[0].audience=11'];
  const set = [...existingSecret, ...others, ...more, ...agent].join(',');
  const { stdout, stderr } = helm(
    'template',
    '123',
    CHART,
    '--values',
    valuesFile('everything'),
    '--set-string',
    set,
  );
  const manifests = readManifests(stdout);
  t.ok(manifests.length > 20, stderr);
  for (const [i, problems] of (await strictly(t, manifests)).entries())
    t.strictSame(problems, [], manifests[i]?.kind ?? '');
  t.equal(only(manifests, 'Deployment', 'true').metadata.labels?.['app.kubernetes.io/instance'], '123');
});

test('a release’s name makes valid names of objects, or is refused', { skip }, (t) => {
  const run = (release: string) => helm('template', release, CHART, '--values', valuesFile('minimal'));
  t.match(only(readManifests(run('my.rel').stdout), 'Deployment').metadata.name, /^my-rel-latchkey$/);
  const longest = 'a'.repeat(31);
  t.equal(run(longest).status, 0);
  for (const release of ['123', `${longest}a`])
    t.match(run(release).stderr, `no Service can be ${release}-latchkey: set fullnameOverride`);
  t.end();
});

test('every pod that reads a database URL reaches PgBouncer in networkPolicy.postgres', { skip }, (t) => {
  const json = JSON.stringify([{ podSelector: { matchLabels: { app: 'pgbouncer' } } }]);
  const more = [
    '--set',
    'networkPolicy.postgres.ports={6432}',
    '--set-json',
    `networkPolicy.postgres.to=${json}`,
  ];
  const manifests = template('everything', ...more);
  const pgbouncer = { namespace: 'latchkey', labels: { app: 'pgbouncer' } };
  const pods = workloadsOf(manifests).map(({ name, template: { metadata } }) => ({
    name,
    isAllowed: isAllowed(manifests, 'latchkey', { namespace: 'latchkey', ...metadata }, pgbouncer, 6432),
  }));
  t.equal(pods.length, 4);
  for (const { name, isAllowed } of pods) t.ok(isAllowed, name);
  t.end();
});

test('a parent chart’s condition and global values are no mistakes', { skip }, (t) => {
  t.doesNotThrow(() => template('minimal', '--set', 'enabled=true,global.imageRegistry=x'));
  t.doesNotThrow(() => template('minimal', '--set-string', 'config.DATABASE_POOL=10'), 'as all of `config`');
  t.end();
});

test('NOTES.txt names the Secrets, the connections and what is open', { skip }, (t) => {
  // helm prints the notes only with a cluster. A ConfigMap in a copy of the chart can hold them.
  const copy = join(scratch(t), 'latchkey');
  cpSync(CHART, copy, { recursive: true });
  const text = readFileSync(join(CHART, 'templates/NOTES.txt'), 'utf8').replaceAll(/^/gm, '    ');
  const head = 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: notes\ndata:\n  text: |\n';
  writeFileSync(join(copy, 'templates/notes.yaml'), head + text);
  const notes = (name: string) => {
    const { stdout } = helm('template', 'latchkey', copy, '--values', valuesFile(name));
    return only(readManifests(stdout), 'ConfigMap', 'notes').data.text;
  };
  t.match(notes('argocd'), /^registry\.example\.com\/latchkey@sha256:0{64} for https:/);
  t.match(notes('minimal'), 'exec deployment/latchkey -- node dist/src/cli.js doctor');
  t.match(notes('tls'), /latchkey: database-url, redis-url, refresh-token-secret, database-ca, redis-ca\n/);
  // k8s/README.md, "Connections", computes 91 for production. A laptop has one replica, one new pod and one that ends.
  t.match(notes('minimal'), 'PostgreSQL must accept 91 connections');
  t.match(notes('single-replica'), 'PostgreSQL must accept 36 connections');
  t.match(notes('minimal'), '`networkPolicy.enabled` is false');
  t.notMatch(notes('restricted-namespace'), '`networkPolicy.enabled` is false');
  t.end();
});

test('`helm test` fails for a replica that is not ready, and for another issuer', { skip }, async (t) => {
  const ISSUER = 'https://auth.example.com';
  const run = async (status: number, issuer: string) => {
    const api: RequestListener = ({ url }, response) => {
      const isReady = url === '/health/ready';
      response.statusCode = isReady ? status : 200;
      const isKnown = isReady || url === '/.well-known/oauth-authorization-server';
      response.end(isKnown ? JSON.stringify({ issuer }) : 'none');
    };
    const address = await listen(t, createServer(api));
    const pod = template('minimal').find(({ kind }) => kind === 'Pod') as Manifest & {
      spec: { containers: { command: string[]; args: string[] }[] };
    };
    const [{ command, args } = { command: [], args: [] }] = pod.spec.containers;
    t.strictSame(args.slice(1), ['http://latchkey-ops:9464', 'http://latchkey:3000', ISSUER]);
    const own = [...command.slice(1), args[0] ?? '', address, address, ISSUER];
    const [code] = (await once(spawn(process.execPath, own, { stdio: 'ignore' }), 'exit')) as [number];
    return code;
  };
  t.equal(await run(200, ISSUER), 0);
  t.not(await run(503, ISSUER), 0);
  t.not(await run(200, 'https://other.example.com'), 0);
});
