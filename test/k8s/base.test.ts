import { spawnSync } from 'node:child_process';
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'tap';
import { parseAllDocuments } from 'yaml';
import { loadConfig } from '../../src/config.ts';
import { FIELDS } from '../../src/config-fields.ts';
import { toolsMissing } from '../support/tools.ts';

const ROOT = new URL('../../../', import.meta.url).pathname;
const MIB = 1024 ** 2;
const skip = toolsMissing('kubectl');

interface Manifest {
  kind: string;
  metadata: { name: string };
}

interface ConfigMap extends Manifest {
  data: Record<string, string>;
}

interface Service extends Manifest {
  spec: { selector: Record<string, string>; ports: { name: string; port: number; targetPort: string }[] };
}

interface Probe {
  httpGet: { path: string; port: string };
}

interface Container {
  image: string;
  ports: { name: string; containerPort: number }[];
  env: { name: string; value: string }[];
  envFrom: { configMapRef: { name: string } }[];
  volumeMounts: { name: string; mountPath: string; readOnly: boolean }[];
  resources: { requests: Record<string, string>; limits: Record<string, string> };
  startupProbe: Probe;
  livenessProbe: Probe;
  readinessProbe: Probe;
}

interface Deployment extends Manifest {
  spec: {
    selector: { matchLabels: Record<string, string> };
    template: {
      metadata: { labels: Record<string, string> };
      spec: {
        containers: [Container];
        terminationGracePeriodSeconds: number;
        volumes: { name: string; secret: { secretName: string } }[];
      };
    };
  };
}

test('the base', { skip }, async (t) => {
  const manifests = render('k8s/base');
  const deployment = only(manifests, 'Deployment') as Deployment;
  const configMap = only(manifests, 'ConfigMap') as ConfigMap;
  const { template } = deployment.spec;
  const [container] = template.spec.containers;
  const ports = Object.fromEntries(container.ports.map(({ name, containerPort }) => [name, containerPort]));

  await t.test('holds a Deployment, its ConfigMap and two Services', (t) => {
    const kinds = manifests.map(({ kind, metadata }) => `${kind} ${metadata.name.replace(/-\w{10}$/, '')}`);
    t.strictSame(kinds.sort(), [
      'ConfigMap latchkey',
      'Deployment latchkey',
      'Service latchkey',
      'Service latchkey-ops',
    ]);
    t.strictSame(container.envFrom, [{ configMapRef: { name: configMap.metadata.name } }]);
    t.end();
  });

  await t.test('sets variables that exist', (t) => {
    const names = [...container.env.map(({ name }) => name), ...Object.keys(configMap.data)];
    for (const name of names) t.ok(name.replace(/_FILE$/, '') in FIELDS, `${name} is a variable`);
    t.end();
  });

  await t.test('starts in production, within its memory limit', (t) => {
    const folder = t.testdir({});
    const env = {
      ...imageEnvironment(),
      ...configMap.data,
      ...Object.fromEntries(
        container.env.map(({ name, value }) => [name, mounted(folder, template.spec, value)]),
      ),
    };
    const { limits, requests } = container.resources;
    const config = loadConfig(env, mebibytes(limits.memory) * MIB);
    t.equal(config.production, true);
    t.strictSame(config.embedded, []);
    t.equal(mebibytes(requests.memory), mebibytes(limits.memory));
    t.match(requests.cpu, /^\d+m$/);

    t.ok(template.spec.terminationGracePeriodSeconds > config.SHUTDOWN_TIMEOUT, 'outlasts the shutdown');
    t.strictSame(ports, { api: config.PORT, ops: config.OPS_PORT });
    t.end();
  });

  await t.test('asks the ops port how it is', (t) => {
    const { startupProbe, livenessProbe, readinessProbe } = container;
    t.strictSame(livenessProbe.httpGet, { path: '/health/live', port: 'ops' });
    t.strictSame(startupProbe.httpGet, { path: '/health/live', port: 'ops' });
    t.strictSame(readinessProbe.httpGet, { path: '/health/ready', port: 'ops' });
    t.end();
  });

  await t.test('fits the restricted pod security standard', (t) => {
    t.match(template.spec, {
      automountServiceAccountToken: false,
      securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } },
    });
    t.match(container, {
      securityContext: {
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      },
    });
    for (const mount of container.volumeMounts) t.equal(mount.readOnly, true);
    t.end();
  });

  await t.test('runs the version of this package', (t) => {
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
    t.equal(container.image, `latchkey:${version}`);
    t.end();
  });

  await t.test('routes each Service to the pods, and the API apart from ops', (t) => {
    const services = manifests.filter((manifest): manifest is Service => manifest.kind === 'Service');
    t.strictSame(deployment.spec.selector.matchLabels, template.metadata.labels);
    for (const { spec } of services) t.strictSame(spec.selector, template.metadata.labels);
    t.strictSame(
      services.map(({ metadata, spec }) => [metadata.name, spec.ports]),
      [
        ['latchkey', [{ name: 'api', port: ports.api, targetPort: 'api' }]],
        ['latchkey-ops', [{ name: 'ops', port: ports.ops, targetPort: 'ops' }]],
      ],
    );
    t.end();
  });
});

function render(folder: string): Manifest[] {
  const { status, stdout, stderr } = spawnSync('kubectl', ['kustomize', join(ROOT, folder)], {
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(stderr);
  return parseAllDocuments(stdout).map((document) => document.toJS() as Manifest);
}

function only(manifests: Manifest[], kind: string): Manifest {
  const [found, ...others] = manifests.filter((manifest) => manifest.kind === kind);
  if (!found || others.length > 0) throw new Error(`not one ${kind}, but ${others.length + Number(!!found)}`);
  return found;
}

/** What the Dockerfile's last stage sets. */
function imageEnvironment(): Record<string, string> {
  const dockerfile = readFileSync(join(ROOT, 'Dockerfile'), 'utf8');
  const assignments = [...dockerfile.matchAll(/^ENV (.+)$/gm)].at(-1)?.[1]?.split(' ') ?? [];
  return Object.fromEntries(assignments.map((text) => text.split('=') as [string, string]));
}

/** What each Secret holds, as k8s/README.md has it created. */
const SECRETS: Record<string, () => Record<string, string>> = {
  latchkey: () => ({
    'database-url': 'postgres://latchkey@db/latchkey',
    'redis-url': 'redis://redis:6379',
    'refresh-token-secret': randomBytes(32).toString('base64url'),
  }),
  'latchkey-signing-keys': () => ({
    '0001.pem': generateKeyPairSync('ec', { namedCurve: 'P-256' })
      .privateKey.export({ type: 'pkcs8', format: 'pem' })
      .toString(),
  }),
};

/** A path in a container as a path here: its volume, filled from the Secret that is mounted there. */
function mounted(root: string, spec: Deployment['spec']['template']['spec'], path: string): string {
  const mount = spec.containers[0].volumeMounts.find(({ mountPath }) =>
    `${path}/`.startsWith(`${mountPath}/`),
  );
  const volume = spec.volumes.find(({ name }) => name === mount?.name);
  const files = SECRETS[volume?.secret.secretName ?? '']?.();
  if (!mount || !files) throw new Error(`nothing is mounted at ${path}`);
  const folder = join(root, basename(mount.mountPath));
  mkdirSync(folder, { recursive: true });
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content);
  return path.replace(mount.mountPath, folder);
}

function mebibytes(quantity = ''): number {
  const [, value] = /^(\d+)Mi$/.exec(quantity) ?? [];
  if (value === undefined) throw new Error(`no MiB: ${quantity}`);
  return Number(value);
}
