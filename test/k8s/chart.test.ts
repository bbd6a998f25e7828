import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import { join } from 'node:path';
import { test } from 'tap';
import { parse } from 'yaml';
import { listen } from '../support/listen.ts';
import { readBlocks } from '../support/markdown.ts';
import { toolsMissing } from '../support/tools.ts';
import { asJob, CASES, CHART, helm, releaseOf, template, templateText, valuesFile } from './chart.ts';
import { allOf, type Manifest, only, type Selector, workloadsOf } from './kinds.ts';
import { violations } from './policy.ts';
import { COMPONENTS, OVERLAYS, readManifests, renderAll, ROOT, scratch } from './render.ts';
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

test(
  'every object matches its type, and every case, overlay and component keeps the rules',
  { skip },
  async (t) => {
    // agent.test.ts checks the one for other services.
    t.strictSame(readdirSync(join(ROOT, 'k8s/components')).sort(), ['agent', ...COMPONENTS]);
    t.strictSame(readdirSync(join(ROOT, 'k8s/overlays')).sort(), OVERLAYS);
    const all = [
      ...CASES.map((name) => ({ name, manifests: template(name) })),
      ...renderAll(t).map(([name, manifests]) => ({ name, manifests })),
    ];
    const documented = { name: 'documents', manifests: documentedExamples() };
    const objects = [...all, documented].flatMap(({ name, manifests }) =>
      manifests.map((manifest) => ({ name, manifest })),
    );
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
      t.ok(workloadsOf(manifests).length >= 3, `${name} starts pods`);
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

/** The objects of the Gateway API that documents show. No package here knows those of its implementations. */
function documentedExamples(): Manifest[] {
  const blocks = ['k8s/README.md', 'docs/integrating/proxies.md'].flatMap((file) =>
    readBlocks(readFileSync(join(ROOT, file), 'utf8')).filter(({ language }) => language === 'yaml'),
  );
  const examples = blocks
    .flatMap(({ text }) => readManifests(text))
    .filter(({ apiVersion }: Partial<Manifest>) => apiVersion?.startsWith('gateway.networking.k8s.io/'));
  if (examples.length === 0) throw new Error('the documents show no object of the Gateway API');
  return examples;
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
  // 25% of 6 replicas are 2 more, and 2 that end: (6 + 2 + 2) x 11 + 3, and one of the drill.
  t.match(notes('company'), 'PostgreSQL must accept 114 connections');
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
