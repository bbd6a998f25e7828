import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { parse } from 'yaml';
import { FIELDS } from '../../src/config/fields.ts';
import { readBlocks } from '../support/markdown.ts';
import { toolsMissing } from '../support/tools.ts';
import { CHART, helm, valuesFile } from './chart.ts';

const skip = toolsMissing('helm');

/** The chart with the least values, and these. */
const rendered = (...more: string[]) =>
  helm('template', 'latchkey', CHART, '--values', valuesFile('minimal'), ...more);

interface Schema {
  type?: string | string[];
  properties?: Record<string, Schema>;
  patternProperties?: Record<string, Schema>;
  additionalProperties?: boolean | Schema;
  items?: Schema;
  required?: string[];
  definitions?: Record<string, Schema>;
  if?: Schema;
  [keyword: string]: unknown;
}

const SCHEMA = JSON.parse(readFileSync(join(CHART, 'values.schema.json'), 'utf8')) as Schema;
const VALUES: unknown = parse(readFileSync(join(CHART, 'values.yaml'), 'utf8'));

/** Parts of Kubernetes' objects, which its API validates; and Helm's own. */
const FREE = [
  'affinity',
  'autoscaling.behavior',
  'autoscaling.metrics[]',
  'dnsConfig',
  'drill.egress[]',
  'extraContainers[]',
  'extraEnv[].valueFrom',
  'extraInitContainers[]',
  'extraObjects[]',
  'extraVolumes[]',
  'global',
  'metrics.serviceMonitor.metricRelabelings[]',
  'metrics.serviceMonitor.relabelings[]',
  'networkPolicy.extraEgress[]',
  'podSecurityContext',
  'securityContext',
  'tolerations[]',
  'topologySpreadConstraints[]',
  'definitions.parentRefs[]',
  'definitions.resources.limits',
  'definitions.resources.requests',
  'definitions.selector.matchExpressions[]',
];

test('the schema is closed, but for parts of Kubernetes’ objects', (t) => {
  t.strictSame(openIn(SCHEMA, '').sort(), [...FREE].sort());
  t.end();
});

/** The paths of objects that take any key. */
function openIn(schema: Schema, path: string): string[] {
  const paths = [
    ...Object.entries(schema.properties ?? {}).map(([name, it]) => openIn(it, below(path, name))),
    ...Object.entries(schema.definitions ?? {}).map(([name, it]) => openIn(it, `definitions.${name}`)),
    ...(schema.items ? [openIn(schema.items, `${path}[]`)] : []),
  ].flat();
  return schema.type === 'object' && schema.additionalProperties === undefined ? [path, ...paths] : paths;
}

function below(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`;
}

/** What only a parent chart sets. */
const OF_A_PARENT = ['enabled', 'global'];

test('the schema and values.yaml have the same values', (t) => {
  const namesIn = (schema: Schema, values: unknown, path = ''): void => {
    if (schema.properties === undefined || path === 'config') return;
    const names = Object.keys(schema.properties).filter((name) => path !== '' || !OF_A_PARENT.includes(name));
    t.strictSame(Object.keys(values as object).sort(), names.sort(), path);
    for (const name of names)
      namesIn(schema.properties[name] ?? {}, (values as Record<string, unknown>)[name], below(path, name));
  };
  namesIn(SCHEMA, VALUES);
  t.end();
});

/** Variables that the chart or the image sets. */
const SET =
  /^(NODE_ENV|PORT|OPS_PORT|DATA_DIR|DATABASE_(URL|CA)|REDIS_(URL|CA|MODE|NODES|SENTINEL_\w+)|SIGNING_KEYS_DIR|REFRESH_TOKEN_SECRET|FACTOR_KEYS)$/;

/** Each with what the error says. */
const MISTAKES: [set: string, error: RegExp][] = [
  ['imagee.tag=1.0.0', /Additional property imagee is not allowed/],
  ['image.repository=', /set image\.repository to the image in your registry/],
  ['image.tag=1', /image\.tag: Invalid type\. Expected: string/],
  ['image.digest=0000', /image\.digest: Does not match pattern/],
  ['image.pullPolicy=Sometimes', /image\.pullPolicy/],
  ['config.ISSUER=auth.example.com', /config\.ISSUER: Does not match pattern/],
  ['config.ISSUER=https://auth.example.com a', /config\.ISSUER: Does not match pattern/],
  ['config.SHUTDOWN_TIMEOUT=34', /set terminationGracePeriodSeconds above 40: preStop/],
  ['terminationGracePeriodSeconds=31', /set terminationGracePeriodSeconds above 31: preStop/],
  ['config.DATABASE_POOL=ten', /config\.DATABASE_POOL: Does not match pattern/],
  ['config.DATABASE_POOL=0', /config\.DATABASE_POOL: Must be greater/],
  ['config.ACCESS_TOKEN_TTL=86401', /config\.ACCESS_TOKEN_TTL: Must be less/],
  ['config.LLT_ENABLED=yes', /config\.LLT_ENABLED must be one of/],
  ['config.RATE_LIMIT_LOGIN=30/0', /config\.RATE_LIMIT_LOGIN: Does not match pattern/],
  ['config.RATE_LIMIT_LOGIN=10', /config\.RATE_LIMIT_LOGIN: Must be less/],
  ['config.AUDIT_LOG=5', /config\.AUDIT_LOG: Invalid type/],
  ['fullnameOverride=My_Name.', /fullnameOverride: Does not match pattern/],
  ['existingSecret.owner=', /existingSecret\.owner: String length/],
  ['redis.mode=sentinels', /redis\.mode/],
  ['redis.mode=cluster', /redis\.nodes: Array must have at least 1 items/],
  ['redis.mode=sentinel,redis.nodes={a:26379}', /redis\.sentinel\.name: String length/],
  ['redis.nodes={redis}', /redis\.nodes\.0: Does not match pattern/],
  ['replicaCount=two', /replicaCount: Invalid type/],
  ['replicaCount=0', /replicaCount: Must be greater/],
  ['autoscaling.targetCPUUtilizationPercentage=null', /set autoscaling\.targetCPUUtilizationPercentage or/],
  ['autoscaling.minReplicas=7', /set autoscaling\.maxReplicas to at least autoscaling\.minReplicas \(7\)/],
  ['serviceAccount.create=false', /serviceAccount\.name: String length/],
  ['migration.mode=hooks', /migration\.mode/],
  ['drill.urls={shop.shop.svc/cart}', /drill\.urls\.0: Does not match pattern/],
  ['drill.urls={https://user:password@shop.example.com}', /drill\.urls\.0: Does not match pattern/],
  ['drill.timeout=0', /drill\.timeout: Must be greater/],
  ['httpRoute.enabled=true', /httpRoute\.parentRefs: Array must have at least 1 items/],
  [
    'httpRoute.enabled=true,httpRoute.parentRefs[0].name=edge',
    /httpRoute\.parentRefs\.0: sectionName is required/,
  ],
  ['networkPolicy.enabled=true', /networkPolicy\.postgres\.to: Array must have at least 1 items/],
  ['metrics.serviceMonitor.interval=15', /metrics\.serviceMonitor\.interval/],
  ['agent.services[0].namespace=orders', /agent\.services\.0: audience is required/],
  [
    ['orders', 'orders', 'shop', 'billing', 'orders', 'billing']
      .map((value, i) => `agent.services[${i >> 1}].${i % 2 ? 'audience' : 'namespace'}=${value}`)
      .join(','),
    /list the namespace orders once in agent\.services/,
  ],
  ['extraEnv[0].name=DATABASE_URL', /remove DATABASE_URL from extraEnv/],
  ['extraEnv[0].name=AUDIENCE_FILE', /remove AUDIENCE_FILE from extraEnv/],
  ['config.SEED_FILE=/seed.json', /Additional property SEED_FILE is not allowed/],
  ['extraEnv[0].name=SEED_FILE', /remove SEED_FILE from extraEnv: it is for development/],
  ['extraEnv[0].name=SHUTDOWN_TIMEOUT', /remove SHUTDOWN_TIMEOUT from extraEnv/],
  ['extraInitContainers[0].name=proxy', /extraInitContainers\.0: image is required/],
  ['extraObjects[0].kind=ConfigMap', /extraObjects\.0: apiVersion is required/],
  ...['secrets', 'owner', 'signing-keys'].map((name): [string, RegExp] => [
    `extraVolumes[0].name=${name}`,
    new RegExp(`give the volume ${name} in extraVolumes another name`),
  ]),
  ...[
    '/run/secrets/latchkey',
    '/run/secrets/latchkey-owner/x',
    '/run//secrets/latchkey/',
    '/var/run/secrets/latchkey',
  ].map((path): [string, RegExp] => [
    `extraVolumes[0].name=a,extraVolumeMounts[0].name=a,extraVolumeMounts[0].mountPath=${path}`,
    /mount a of extraVolumeMounts elsewhere/,
  ]),
  ['extraVolumeMounts[0].name=a,extraVolumeMounts[0].mountPath=/a', /add the volume a to extraVolumes/],
  ['extraVolumeMounts[0].name=a', /extraVolumeMounts\.0: mountPath is required/],
  ['extraContainers[0].name=a', /extraContainers\.0: image is required/],
  ...[
    'commonLabels',
    'podLabels',
    'migration.podLabels',
    'purge.podLabels',
    'drill.podLabels',
    'admin.podLabels',
    'test.podLabels',
  ].flatMap((field) =>
    ['name', 'instance', 'component'].map((label): [string, RegExp] => [
      `${field}.app\\.kubernetes\\.io/${label}=a`,
      new RegExp(`remove app\\.kubernetes\\.io/${label} from ${field}:`),
    ]),
  ),
  ['config.DRAIN_DELAY=25', /set config\.DRAIN_DELAY \(25 s\) below config\.SHUTDOWN_TIMEOUT \(25 s\)/],
  ['config.SHUTDOWN_TIMEOUT=5', /set config\.DRAIN_DELAY \(5 s\) below config\.SHUTDOWN_TIMEOUT \(5 s\)/],
  ['metrics.serviceMonitor.scrapeTimeout=1m', /set metrics\.serviceMonitor\.scrapeTimeout \(1m\) to at most/],
  ['metrics.serviceMonitor.scrapeTimeout=15001ms', /set metrics\.serviceMonitor\.scrapeTimeout/],
  [
    'metrics.prometheusRule.additionalAggregationLabels={a-b}',
    /metrics\.prometheusRule\.additionalAggregationLabels\.0: Does not match pattern/,
  ],
  ['metrics.prometheusRule.additionalRuleLabels.severity=a', /metrics\.prometheusRule\.additionalRuleLabels/],
  ['startupProbe.periodSeconds=0', /startupProbe\.periodSeconds: Must be greater/],
  ['strategy.rollingUpdate.maxSurge=0', /strategy\.rollingUpdate\.maxSurge: Must be greater/],
  ['service.type=ExternalName', /service\.type/],
  ['service.externalTrafficPolicy=Local', /service\.externalTrafficPolicy: String length/],
  ['service.type=NodePort,service.loadBalancerClass=a', /service\.loadBalancerClass: String length/],
  ['global.imageRegistry=1', /global\.imageRegistry: Invalid type/],
];

interface Example {
  kind?: string;
  spec?: { values?: object; source?: { helm?: { valuesObject: object } } };
}

test('the values in the README are valid', { skip }, (t) => {
  const examples = readBlocks(readFileSync(join(CHART, 'README.md'), 'utf8'))
    .filter(({ language }) => language === 'yaml')
    .map(({ text }) => parse(text) as Example)
    .map((it) => it.spec?.values ?? it.spec?.source?.helm?.valuesObject ?? it)
    .filter((it) => !('kind' in it));
  t.equal(examples.length, 5, 'of installing, the drill, Argo CD, Flux and the agent');
  for (const [i, values] of examples.entries()) {
    const file = join(t.testdir(), `${i}.json`);
    writeFileSync(file, JSON.stringify(values));
    const { status, stderr } = rendered('--values', file);
    t.equal(status, 0, stderr);
  }
  t.end();
});

test('a mistake in a value is an error that names the value', { skip }, (t) => {
  for (const [set, error] of MISTAKES) {
    const { status, stderr } = rendered('--set', set);
    t.not(status, 0, set);
    t.match(stderr, error, set);
  }
  t.match(rendered('--set-string', 'config.DRAIN_DELAY=60').stderr, 'DRAIN_DELAY (60 s)');
  for (const value of ['5', '86401', '1e3'])
    t.match(
      rendered('--set-string', `config.ACCESS_TOKEN_TTL=${value}`).stderr,
      value === '1e3' ? 'Does not match pattern' : `a whole number from 10 to 86400: it is ${value}`,
    );
  for (const value of ['10', '86400', ''])
    t.equal(rendered('--set-string', `config.ACCESS_TOKEN_TTL=${value}`).status, 0, value);
  for (const flag of ['--set', '--set-string'])
    t.equal(rendered(flag, 'config.RATE_LIMIT_LOGIN=0').status, 0, flag);
  const { stderr } = helm('template', 'latchkey', CHART, '--set', 'image.repository=latchkey');
  t.match(stderr, 'set config.ISSUER to the public address', 'without values');
  t.end();
});

test('a drain may be as long as the shutdown but a second, or none', { skip }, (t) => {
  for (const set of ['config.DRAIN_DELAY=24', 'config.DRAIN_DELAY=0,config.SHUTDOWN_TIMEOUT=1'])
    t.equal(rendered('--set', set).status, 0, set);
  t.end();
});

test('extraEnv takes no variable that the chart sets, and any other', { skip }, (t) => {
  const run = (name: string) => rendered('--set', `extraEnv[0].name=${name},extraEnv[0].value=x`);
  for (const name of Object.keys(FIELDS).filter((name) => SET.test(name)))
    for (const variable of [name, `${name}_FILE`])
      t.match(run(variable).stderr, `remove ${variable} from extraEnv`, variable);
  for (const name of ['NODE_OPTIONS', 'OTEL_EXPORTER_OTLP_HEADERS']) t.equal(run(name).status, 0, name);
  t.end();
});

test('`null` for a part of the values is an error that names it', { skip }, (t) => {
  const parts = (schema: Schema, path: string): string[] =>
    Object.entries(schema.properties ?? {}).flatMap(([name, it]) =>
      it.properties ? [below(path, name), ...parts(it, below(path, name))] : [],
    );
  const all = parts(SCHEMA, '').filter((path) => !OF_A_PARENT.includes(path));
  t.ok(all.includes('metrics.serviceMonitor'));
  for (const path of all) {
    const { stderr } = rendered('--set', `${path}=null`);
    t.match(stderr, new RegExp(`: ${path.split('.').at(-1) ?? ''} is required`), path);
  }
  t.end();
});
