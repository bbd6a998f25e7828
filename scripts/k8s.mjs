// `npm run k8s` writes the error budgets into the alert rules of deploy/, copies rules and dashboard into the chart, because
// helm reads no file outside its folder, renders the chart with k8s/values.yaml, and writes each object into a file of k8s/. `--check` writes nothing and
// names each file that differs. The kustomizations, components/pgbouncer, components/agent and the overlays are written by
// hand (ADR 22).
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative } from 'node:path';
import { format } from 'oxfmt';
import { isMap, parseAllDocuments, visit } from 'yaml';
import { withBudgets } from './budget-rules.mjs';
import { configBounds, configSchema } from './config-schema.mjs';

const HEADER = 'Rendered from charts/latchkey with k8s/values.yaml by `npm run k8s`.';

/** Where each object goes, below k8s. */
const FILES = {
  'ServiceAccount latchkey': 'base/service-account.yaml',
  'Deployment latchkey': 'base/deployment.yaml',
  'HorizontalPodAutoscaler latchkey': 'base/autoscaler.yaml',
  'PodDisruptionBudget latchkey': 'base/disruption-budget.yaml',
  'Service latchkey': 'base/service.yaml',
  'Service latchkey-ops': 'base/service-ops.yaml',
  'Job latchkey-migrate': 'base/migrate.yaml',
  'CronJob latchkey-purge': 'base/purge.yaml',
  'CronJob latchkey-admin': 'base/admin.yaml',
  'ConfigMap latchkey': 'base/config.env',
  'HTTPRoute latchkey': 'components/gateway/http-route.yaml',
  'HTTPRoute latchkey-internal': 'components/gateway-internal/http-route.yaml',
  'Ingress latchkey': 'components/ingress/ingress.yaml',
  'NetworkPolicy latchkey-default-deny': 'components/network-policy/default-deny.yaml',
  'NetworkPolicy latchkey-dns': 'components/network-policy/dns.yaml',
  'NetworkPolicy latchkey-to-postgres': 'components/network-policy/to-postgres.yaml',
  'NetworkPolicy latchkey-to-redis': 'components/network-policy/to-redis.yaml',
  'NetworkPolicy latchkey-server': 'components/network-policy/server.yaml',
  'ServiceMonitor latchkey': 'components/monitoring/service-monitor.yaml',
  'PrometheusRule latchkey': 'components/monitoring/prometheus-rule.yaml',
  'ConfigMap latchkey-dashboard': 'components/monitoring/dashboard.yaml',
};

/** Labels that tell releases of Helm apart. Selectors are immutable, and stay those of 1.0.0. */
const OF_A_RELEASE = [
  'helm.sh/chart',
  'app.kubernetes.io/instance',
  'app.kubernetes.io/managed-by',
  'app.kubernetes.io/version',
];

const root = new URL('..', import.meta.url).pathname;
const read = (path) => readFileSync(join(root, path), 'utf8');
const { singleQuote, printWidth } = JSON.parse(read('.oxfmtrc.json'));
const style = { singleQuote, printWidth };

const { FIELDS } = await import('../dist/src/config/fields.js');
const { OPERATION_CLASSES } = await import('../dist/src/http/openapi/operation-classes.js');
const rules = withBudgets(
  read('deploy/prometheus/rules.yaml'),
  OPERATION_CLASSES,
  JSON.parse(read('docs/openapi.json')),
);
const schema = JSON.parse(read('charts/latchkey/values.schema.json'));
schema.properties.config = configSchema(FIELDS);
const copies = {
  'charts/latchkey/values.schema.json': await formatted('values.schema.json', JSON.stringify(schema)),
  'deploy/prometheus/rules.yaml': rules,
  'charts/latchkey/files/rules.yaml': rules,
  'charts/latchkey/files/config-bounds.json': `${JSON.stringify(configBounds(FIELDS))}\n`,
  // No whitespace, because `kubectl apply` repeats it in an annotation.
  'charts/latchkey/files/dashboard.json': `${JSON.stringify(JSON.parse(read('deploy/grafana/latchkey.json')))}\n`,
};
const folders = [
  'charts/latchkey/files',
  ...new Set(Object.values(FILES).map((file) => dirname(`k8s/${file}`))),
];
const wanted = { ...copies, ...(await rendered()) };
const problems = [
  ...Object.entries(wanted).flatMap(([path, text]) => {
    if (!existsSync(join(root, path))) return [[path, 'is missing']];
    return read(path) === text ? [] : [[path, 'differs from its source']];
  }),
  ...leftOver().map((path) => [path, 'is left over']),
].sort();

if (process.argv.includes('--check')) {
  for (const [path, what] of problems) process.stderr.write(`${path} ${what}: run npm run k8s\n`);
  if (problems.length > 0) process.exitCode = 1;
} else
  for (const [path] of problems) {
    if (path in wanted) writeFileSync(join(root, path), wanted[path]);
    else rmSync(join(root, path));
    process.stdout.write(`${path}\n`);
  }

/** Files beside the rendered ones that are neither rendered nor a kustomization. */
function leftOver() {
  return folders.flatMap((folder) =>
    readdirSync(join(root, folder))
      .map((name) => join(folder, name))
      .filter((path) => !(path in wanted) && basename(path) !== 'kustomization.yaml'),
  );
}

/** The text of each rendered file, by its path. */
async function rendered() {
  const chart = mkdtempSync(join(tmpdir(), 'latchkey-chart-'));
  process.on('exit', () => rmSync(chart, { recursive: true, force: true }));
  cpSync(join(root, 'charts/latchkey'), chart, { recursive: true });
  for (const [path, text] of Object.entries(copies))
    if (path.startsWith('charts/')) writeFileSync(join(chart, relative('charts/latchkey', path)), text);
  const words = ['template', 'latchkey', chart, '--values', join(root, 'k8s/values.yaml'), '--skip-tests'];
  const { status, stdout, stderr, error } = spawnSync('helm', words, {
    encoding: 'utf8',
    maxBuffer: 2 ** 24,
  });
  if (status !== 0) throw error ?? new Error(stderr);
  const documents = parseAllDocuments(stdout.replaceAll(/^# Source: .*\n/gm, ''));
  const files = documents.filter(({ contents }) => isMap(contents)).map(fileOf);
  return Object.fromEntries(await Promise.all(files));
}

/** The path of an object's file, and its text. */
async function fileOf(document) {
  visit(document, { Pair: (_, { key }) => (OF_A_RELEASE.includes(key.value) ? visit.REMOVE : undefined) });
  visit(document, { Pair: (_, { key, value }) => (isEmptied(key, value) ? visit.REMOVE : undefined) });
  // kustomize adds hashes of its own to the ConfigMap's name.
  visit(document, { Scalar: (_, scalar) => void (scalar.value = withoutHash(scalar.value)) });
  const { kind, metadata, data } = document.toJS();
  const { name } = metadata;
  const path = FILES[`${kind} ${name}`];
  if (path === undefined) throw new Error(`name a file for ${kind} ${name} in scripts/k8s.mjs`);
  const lines = Object.entries(data ?? {}).map(([variable, value]) => `${variable}=${value}\n`);
  if (path.endsWith('.env')) return [`k8s/${path}`, `# ${HEADER}\n${lines.join('')}`];
  // The chart quotes what might look like a number.
  visit(document, { Scalar: (_, scalar) => void (/^QUOTE/.test(scalar.type) && (scalar.type = 'PLAIN')) });
  const text = document.toString({ lineWidth: 0 }).replace(/^---\n/, '');
  return [`k8s/${path}`, await formatted(basename(path), `# ${HEADER}\n${text}`)];
}

async function formatted(name, text) {
  const { code, errors } = await format(name, text, style);
  if (errors.length > 0) throw new Error(`${name}: ${errors[0].message}`);
  return code;
}

/** Of the names of a Job and of the ConfigMap, and of what refers to the latter. */
function withoutHash(value) {
  return typeof value === 'string' ? value.replace(/^(latchkey(?:-migrate)?)-[0-9a-f]{10}$/, '$1') : value;
}

function isEmptied(key, value) {
  return ['annotations', 'labels'].includes(key.value) && isMap(value) && value.items.length === 0;
}
