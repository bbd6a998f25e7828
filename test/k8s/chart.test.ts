import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { parse } from 'yaml';
import { readConfiguration } from '../../packages/agent/src/configuration.ts';
import { DATABASE_SETTINGS, loadConfig, loadSettings, type Config } from '../../src/config/config.ts';
import { makeCertificates } from '../support/certificates.ts';
import { metricsIn, readRules, type Alert, type Recording } from '../support/alert-rules.ts';
import { listen } from '../support/listen.ts';
import { toolsMissing } from '../support/tools.ts';
import { CASES, CHART, helm, isTest, template, templateText, valuesFile } from './chart.ts';
import { allOf, only, workloadsOf, type Labels, type Manifest, type Selector } from './kinds.ts';
import { makeMounts, variablesIn } from './mounts.ts';
import { isAllowed } from './network.ts';
import { violations } from './policy.ts';
import { readManifests, ROOT, scratch } from './render.ts';
import { madeSecrets, type Secrets } from './secrets.ts';
import { strictly } from './strict.ts';

const skip = toolsMissing('helm', 'kubectl', 'bash', 'openssl');

/** Rules that a case breaks on purpose. */
const INTENDED: Record<string, RegExp> = {
  openshift: /: runs as no root$|: is for any controller$/,
  // The example of a sidecar is short.
  'no-network-policy': /sql-proxy: (is probed|has a digest)$/,
  // Its digest says which.
  argocd: /: has a tag that says which$/,
  // Its volumes are the company's own, and it has a ConfigMap for all of its applications.
  company: /: keeps nothing$|: reads ConfigMaps that exist$/,
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

test('helm lints the chart and every case, and renders a case twice to the same bytes', { skip }, (t) => {
  const { status, stdout } = helm('lint', CHART);
  t.equal(status, 0, stdout);
  t.equal(CASES.length, 16);
  for (const name of CASES) {
    const { status, stdout } = helm('lint', '--strict', CHART, '--values', valuesFile(name));
    t.equal(status, 0, `${name}: ${stdout}`);
    t.equal(templateText(name), templateText(name), name);
  }
  t.end();
});

test('every object of a case matches its type and keeps the rules', { skip }, async (t) => {
  const all = CASES.map((name) => ({ name, manifests: template(name) }));
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
});

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
  t.match(configs.get('tls'), { DATABASE_CA: ca?.trim(), REDIS_CA: redisCa?.trim(), FACTOR_KEYS });
  t.equal(configs.get('minimal')?.FACTOR_KEYS, undefined);
  t.equal(configs.get('minimal')?.DATABASE_CA, undefined);
  t.match(configs.get('no-network-policy'), { REFRESH_TOKEN_TTL: 2_592_000, SIGNUP_ENABLED: false });
  t.match(configs.get('single-replica'), { LOG_LEVEL: 'debug', DOCS_ENABLED: true });
  t.end();
});

const FACTOR_KEYS = Buffer.alloc(32, 1).toString('base64url');

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
  for (const { name, template: pod } of workloadsOf(manifests)) {
    const own: Record<string, unknown> = { ...pod.spec };
    for (const field of fields) t.strictSame(own[field], values[field], `${name}: ${field}`);
    const [{ env } = {}] = pod.spec.containers;
    t.strictSame(own.initContainers, values.extraInitContainers, name);
    if (name !== 'latchkey-test') t.match(env?.at(-1), (values.extraEnv as object[])[0] ?? {}, name);
    t.equal(pod.metadata.labels['sidecar.istio.io/inject'], 'false', name);
    t.equal(pod.metadata.labels.team, 'identity', name);
    t.equal(pod.metadata.annotations?.['example.com/logs'], 'json', name);
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

/** A release of a case in the namespace `auth`. */
function releaseOf(release: string, name: string, ...more: string[]): Manifest[] {
  const words = ['template', release, CHART, '--namespace', 'auth', '--values', valuesFile(name), ...more];
  const { status, stdout, stderr } = helm(...words);
  if (status !== 0) throw new Error(stderr);
  return readManifests(stdout);
}

test('two releases in one namespace share no name and no pod, and match their types', { skip }, async (t) => {
  for (const name of ['everything', 'company']) {
    const [one = [], two = []] = ['one', 'two'].map((release) => releaseOf(release, name));
    const namesOf = (manifests: Manifest[]) =>
      manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
    t.ok(one.length > 15 && one.length === two.length);
    t.strictSame(
      namesOf(one).filter((each) => namesOf(two).includes(each)),
      [],
      name,
    );
    for (const [i, problems] of (await strictly(t, [...one, ...two])).entries())
      t.strictSame(problems, [], [...one, ...two][i]?.kind ?? '');
    const selectors = [
      ...allOf(one, 'Service').map(({ spec }): Selector => ({ matchLabels: spec.selector })),
      ...(['Deployment', 'PodDisruptionBudget', 'ServiceMonitor'] as const).flatMap((kind) =>
        allOf(one, kind).map(({ spec }) => spec.selector),
      ),
      ...allOf(one, 'NetworkPolicy').map(({ spec }) => spec.podSelector),
    ];
    for (const selector of selectors) {
      t.equal(selector.matchLabels?.['app.kubernetes.io/instance'], 'one');
      const known = ['name', 'instance', 'component'].map((label) => `app.kubernetes.io/${label}`);
      for (const label of Object.keys(selector.matchLabels ?? {})) t.ok(known.includes(label), label);
    }
  }
});

test('every pod of a company has its files, labels and addresses', { skip }, (t) => {
  const manifests = template('company').map(asJob);
  const workloads = workloadsOf(manifests);
  t.equal(workloads.length, 5);
  const values = parse(readFileSync(valuesFile('company'), 'utf8')) as {
    extraVolumes: { name: string }[];
    extraVolumeMounts: object[];
    extraEnvFrom: object[];
    hostAliases: object[];
    dnsConfig: object;
  };
  for (const { kind, name, template: pod } of workloads) {
    const { volumes = [], containers, ...spec } = pod.spec;
    const [{ volumeMounts = [], envFrom = [] } = {}] = containers;
    t.strictSame(volumes.slice(-2), values.extraVolumes, name);
    t.strictSame(volumeMounts.slice(-2), values.extraVolumeMounts, name);
    t.strictSame([spec.hostAliases, spec.dnsConfig], [values.hostAliases, values.dnsConfig], name);
    const { labels, annotations } = pod.metadata;
    t.equal(labels['example.com/cost-centre'], '4711', name);
    t.equal(labels['sidecar.istio.io/inject'], kind === 'Deployment' ? 'true' : 'false', name);
    t.equal(annotations?.['example.com/logs'], 'json', name);
    if (name === 'latchkey-test') continue;
    // The last one wins.
    const own = name === 'latchkey-migrate' ? [] : [{ configMapRef: { name: 'latchkey' } }];
    t.strictSame(envFrom, [...values.extraEnvFrom, ...own], name);
  }
  for (const { kind, metadata } of manifests)
    t.equal(metadata.labels?.['example.com/cost-centre'], '4711', kind);
  t.end();
});

test('the configuration of every command of a company loads, with its client certificate', { skip }, (t) => {
  const { certFile, keyFile } = makeCertificates(scratch(t), 'client');
  const client = { 'tls.crt': readFileSync(certFile, 'utf8'), 'tls.key': readFileSync(keyFile, 'utf8') };
  const manifests = withMaps('company');
  const workloads = workloadsOf(manifests);
  t.equal(workloads.length, 4);
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
    if (name === 'latchkey-migrate' || name === 'latchkey-purge') continue;
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

test('rendered for a release, only its own rules alert', { skip: skip || toolsMissing('promtool') }, (t) => {
  const folder = t.testdir({});
  const releases = ['one', 'two'];
  for (const release of releases) {
    const flag = ['--set', `metrics.prometheusRule.additionalRuleLabels.judge=${release}`];
    const { groups } = only(releaseOf(release, 'company', ...flag), 'PrometheusRule').spec;
    for (const { expr } of groups.flatMap(({ rules }) => rules as (Alert | Recording)[])) {
      const own = `namespace="auth", service="${release}-latchkey-ops"`;
      for (const name of metricsIn(expr))
        for (const [selector] of expr.matchAll(new RegExp(`(?<![\\w:])${name}(?![\\w:])(?:[{][^}]*)?`, 'g')))
          t.ok(selector.includes(own), selector);
    }
    writeFileSync(join(folder, `${release}.yaml`), JSON.stringify({ groups }));
  }
  const series = (release: string, values: string) =>
    ['up', 'latchkey_ready'].map((name) => ({
      series: `${name}{job="latchkey", namespace="auth", service="${release}-latchkey-ops", instance="a"}`,
      values,
    }));
  const check = {
    expr: 'count by (alertname, service, judge, team) (ALERTS{alertstate="firing"})',
    eval_time: '10m',
    exp_samples: [
      {
        labels: '{alertname="LatchkeyNoneReady", service="one-latchkey-ops", judge="one", team="identity"}',
        value: 1,
      },
      {
        labels: '{alertname="LatchkeyReplicaDown", service="one-latchkey-ops", judge="one", team="identity"}',
        value: 1,
      },
    ],
  };
  const tests = [
    {
      interval: '1m',
      input_series: [...series('one', '1x2 0x20'), ...series('two', '1x22')],
      promql_expr_test: [check],
    },
  ];
  const file = join(folder, 'test.yaml');
  writeFileSync(
    file,
    JSON.stringify({ rule_files: releases.map((it) => `${it}.yaml`), evaluation_interval: '1m', tests }),
  );
  const { status, stdout, stderr } = spawnSync('promtool', ['test', 'rules', file], { encoding: 'utf8' });
  t.equal(status, 0, stdout + stderr);
  t.end();
});

test('the rules of all releases, labels for routing, and further labels that separate', { skip }, (t) => {
  const rulesOf = (...set: string[]) =>
    only(template('everything', ...set.flatMap((each) => ['--set', each])), 'PrometheusRule').spec.groups;
  const prefix = 'metrics.prometheusRule';
  const { file } = readRules(
    readFileSync(join(ROOT, 'deploy/prometheus/rules.yaml'), 'utf8').replaceAll(
      /runbook_url: [^#\n]+#/g,
      'runbook_url: https://git.example.com/latchkey/blob/main/docs/runbook.md#',
    ),
  );
  t.strictSame(rulesOf(`${prefix}.allReleases=true`), file.groups);
  const text = JSON.stringify(rulesOf(`${prefix}.additionalAggregationLabels={region}`));
  t.notMatch(text, /cluster, namespace, service(?!, region\b)/);
  const team = 'a: "{{ $externalLabels.team }}" # $1';
  const labelled = rulesOf(`${prefix}.additionalRuleLabels.team=${team}`);
  for (const rule of labelled.flatMap(({ rules }) => rules as (Alert | Recording)[]))
    if ('alert' in rule) t.strictSame(rule.labels, { severity: rule.labels.severity, team }, rule.alert);
  t.end();
});

test('routes: hosts and certificates', { skip }, (t) => {
  const ingressOf = (...set: string[]) =>
    only(template('ingress', ...set.flatMap((each) => ['--set', each])), 'Ingress').spec;
  const hosts = 'ingress.hosts={a.example.com,b.example.com}';
  t.strictSame(ingressOf().tls, [{ hosts: ['auth.example.com'], secretName: 'latchkey-tls' }]);
  const both = ingressOf(hosts);
  t.strictSame(both.tls, [{ hosts: ['a.example.com', 'b.example.com'], secretName: 'latchkey-tls' }]);
  t.strictSame(
    both.rules.map(({ host }) => host),
    ['a.example.com', 'b.example.com'],
  );
  t.strictSame(both.rules[0]?.http, both.rules[1]?.http);
  t.strictSame(ingressOf('ingress.tls[0].hosts={a.example.com}', hosts).tls, [{ hosts: ['a.example.com'] }]);
  t.equal(only(template('ingress', '--set-json', 'ingress.tls=[]'), 'Ingress').spec.tls, undefined);
  const routes = template('everything', '--set', 'httpRoute.hostnames={a.example.com,b.example.com}');
  t.strictSame(only(routes, 'HTTPRoute', 'latchkey').spec.hostnames, ['a.example.com', 'b.example.com']);
  t.strictSame(only(template('httproute'), 'HTTPRoute').spec.hostnames, ['auth.example.com']);
  t.end();
});

test('a load balancer is the API’s alone', { skip }, (t) => {
  const [api, ops] = allOf(template('company'), 'Service');
  t.match(api, {
    metadata: { annotations: { 'networking.gke.io/load-balancer-type': 'Internal' } },
    spec: { type: 'LoadBalancer', loadBalancerSourceRanges: ['10.0.0.0/8'], externalTrafficPolicy: 'Local' },
  });
  t.strictSame(ops?.metadata.annotations, { 'example.com/scrape': 'true' });
  t.strictSame(Object.keys(ops?.spec ?? {}).sort(), ['ports', 'selector']);
  t.end();
});

test('a parent chart’s registry and pull secrets reach every pod', { skip }, (t) => {
  const set = 'global.imageRegistry=mirror.example.com,global.imagePullSecrets={mirror}';
  const more = ['--set', `${set},imagePullSecrets[0].name=own,image.registry=overruled.example.com`];
  const workloads = workloadsOf(template('minimal', ...more).map(asJob));
  t.equal(workloads.length, 5);
  for (const { name, template: pod } of workloads) {
    t.match(pod.spec.containers[0]?.image, /^mirror\.example\.com\/registry\.example\.com\/latchkey:/, name);
    t.strictSame(pod.spec.imagePullSecrets, [{ name: 'own' }, { name: 'mirror' }], name);
  }
  t.end();
});

test('containers beside the replicas, numbers of probes and names', { skip }, (t) => {
  const sidecar = 'extraContainers[0].name=log,extraContainers[0].image=log:1.0';
  const manifests = template(
    'minimal',
    '--set',
    `${sidecar},nameOverride=login,readinessProbe.periodSeconds=1`,
  );
  for (const { kind, name, template: pod } of workloadsOf(manifests.map(asJob)))
    t.equal(pod.spec.containers.length, kind === 'Deployment' ? 2 : 1, name);
  const { metadata, spec } = only(manifests, 'Deployment');
  t.equal(metadata.name, 'latchkey-login');
  t.equal(metadata.labels?.['app.kubernetes.io/name'], 'latchkey', '`job`, which the alerts select');
  t.strictSame(spec.template.spec.containers[0]?.readinessProbe, {
    httpGet: { path: '/health/ready', port: 'ops' },
    periodSeconds: 1,
    timeoutSeconds: 3,
    failureThreshold: 2,
  });
  const { metrics } = only(template('company'), 'HorizontalPodAutoscaler').spec;
  t.strictSame(
    metrics.map(({ type }) => type),
    ['Resource', 'Pods'],
  );
  t.end();
});

test('a component’s own labels and annotations win, and Helm’s of a hook over all', { skip }, (t) => {
  const set = [
    'podLabels.a=general',
    'test.podLabels.a=own',
    'podAnnotations.b=general',
    'test.podAnnotations.b=own',
  ];
  const hook = 'podAnnotations.helm\\.sh/hook=pre-install,commonLabels.app\\.kubernetes\\.io/version=2';
  const pod = template('minimal', '--set-string', `${set.join(',')},${hook}`).find(
    ({ kind }) => kind === 'Pod',
  );
  t.match(pod?.metadata, {
    labels: { a: 'own', 'app.kubernetes.io/version': '2' },
    annotations: { b: 'own', 'helm.sh/hook': 'test' },
  });
  t.end();
});

test('names and hosts that look like numbers or booleans stay strings', { skip }, async (t) => {
  const words = { service: '1', owner: '2', signingKeys: '3' };
  const existingSecret = Object.entries(words).map(([name, word]) => `existingSecret.${name}=${word}`);
  const others = [
    'fullnameOverride=true',
    'serviceAccount.name=4',
    'ingress.hosts={5}',
    'ingress.className=6',
  ];
  const more = ['ingress.tls[0].secretName=7', 'httpRoute.hostnames={8}', 'httpRoute.internal.hostnames={9}'];
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
  t.doesNotThrow(() => template('minimal', '--set', 'enabled=true,global.storageClass=x'));
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
  t.match(
    notes('tls'),
    /latchkey: database-url, redis-url, refresh-token-secret, factor-keys, database-ca, redis-ca\n/,
  );
  // k8s/README.md, "Connections", computes 91 for production. A laptop has one replica, one new pod and one that ends.
  t.match(notes('minimal'), 'PostgreSQL must accept 91 connections');
  t.match(notes('single-replica'), 'PostgreSQL must accept 36 connections');
  // 25% of 6 replicas are 2 more, and 2 that end: (6 + 2 + 2) x 11 + 3.
  t.match(notes('company'), 'PostgreSQL must accept 113 connections');
  t.match(notes('company'), /`service\.type` is LoadBalancer: .*\/api\/users/);
  t.notMatch(notes('minimal'), '`service.type`');
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
