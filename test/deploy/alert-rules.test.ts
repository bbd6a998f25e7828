import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { parse } from 'yaml';
import { OPERATION_CLASSES, type OperationClass } from '../../src/http/openapi/operation-classes.ts';
import { readRules, ROOT, RULES_FILE, type Alert } from '../support/alert-rules.ts';
import type { Document } from '../support/openapi.ts';
import { toolsMissing } from '../support/tools.ts';

const skip = toolsMissing('promtool');
const FOLDER = join(ROOT, 'deploy/prometheus');
const TESTS = ['rules.test.yaml', 'rules.days.test.yaml'];
const { alerts, recordings } = readRules();
const names = [...new Set(alerts.map(({ alert }) => alert))];

/** Of all rules of this name; one may warn before another pages. */
function severitiesOf(name: string): string[] {
  return alerts.filter(({ alert }) => alert === name).map(({ labels }) => labels.severity);
}

interface Check {
  expr: string;
  exp_samples: { labels: string }[];
}

interface Group {
  /** The alert's name, and its severity if it has several; a suffix is optional. */
  name: string;
  input_series?: { series: string }[];
  promql_expr_test: Check[];
}

test('the rules pass their tests', { skip }, async (t) => {
  t.strictSame(await Promise.all(TESTS.map((file) => failuresOf(FOLDER, file))), ['', '']);
});

test('every alert has a test in which it fires, and one in which it only just does not', (t) => {
  const groups = TESTS.flatMap(
    (file) => (parse(readFileSync(join(FOLDER, file), 'utf8')) as { tests: Group[] }).tests,
  );
  const alertOf = ({ name }: Group) => name.split(' ')[0] ?? '';
  t.strictSame([...new Set(groups.map(alertOf))].sort(), [...names].sort());
  for (const { alert, for: wait, labels } of alerts) {
    const severity = severitiesOf(alert).length > 1 ? labels.severity : null;
    const own = groups.filter(
      (group) => alertOf(group) === alert && (severity === null || group.name.split(' ')[1] === severity),
    );
    const checks = own.flatMap((group) => group.promql_expr_test);
    const selected = severity === null ? '' : `severity="${severity}", `;
    for (const { expr } of checks)
      t.equal(expr, `count by (service) (ALERTS{alertname="${alert}", ${selected}alertstate="firing"})`);
    const isSilent = ({ exp_samples: firing }: Check) => firing.length === 0;
    t.notOk(checks.every(isSilent), `${alert} fires`);
    t.ok(own.some(someDoNotFire), `${alert} does not fire for an installation just below its threshold`);
    if (wait !== undefined) t.ok(checks.some(isSilent), `${alert} waits`);
  }
  t.end();
});

/** The budgets of these do not page. */
const SILENT: OperationClass[] = ['account', 'documents', 'feed'];

/** Series of one operation, each as an installation of its own, and whether it is down there after an hour. */
const FATES: Record<string, { statuses: Record<string, string>; isDown: boolean }> = {
  down: { statuses: { 503: '_x40 0+1x20', 401: '_x40 0+9x20' }, isDown: true },
  'three failures and nothing else': { statuses: { 500: '_x45 1x6 2x6 3x9' }, isDown: true },
  'one failure': { statuses: { 500: '_x45 1x20' }, isDown: false },
  'three failures and a success': {
    statuses: { 500: '_x45 1x6 2x6 3x9', 200: '_x45 1x20' },
    isDown: false,
  },
  'a user who tries for two minutes': { statuses: { 500: '_x45 1 2 3x15' }, isDown: false },
  // It failed long ago, and once since.
  'a gap of Prometheus': { statuses: { 500: '5x9 _x35 5x9 6x10' }, isDown: false },
  'a flood': {
    statuses: { 401: '_x40 0+900x20', 404: '_x40 0+900x20', 429: '_x40 0+900x20' },
    isDown: false,
  },
};

/** Every operation, as the router writes its route. */
function operations() {
  const document = JSON.parse(readFileSync(join(ROOT, 'docs/openapi.json'), 'utf8')) as Document;
  const all = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { operationId }]) => ({
      id: operationId,
      labels: `method="${method.toUpperCase()}", route="${path.replaceAll(/\{(\w+)\}/g, ':$1')}"`,
    })),
  );
  return Object.entries(OPERATION_CLASSES).flatMap(([name, ids]) =>
    ids.map((id) => {
      const found = all.find((it) => it.id === id);
      if (!found) throw new Error(`${id} is no operation`);
      return { ...found, name: name as OperationClass };
    }),
  );
}

test(
  'an operation of every class pages if it is down, and not for one user’s failures or a flood',
  { skip },
  async (t) => {
    const series = (service: string, labels: string, status: string, values: string) => ({
      series: `http_request_duration_seconds_count{job="latchkey", service="${service}", instance="a", ${labels}, status="${status}"}`,
      values,
    });
    const input = operations().flatMap(({ id, labels }) =>
      Object.entries(FATES).flatMap(([fate, { statuses }]) =>
        Object.entries(statuses).map(([status, values]) => series(`${id}: ${fate}`, labels, status, values)),
      ),
    );
    const firing = (alert: string, eval_time: string, services: string[]) => ({
      expr: `count by (service) (ALERTS{alertname="${alert}", alertstate="firing"})`,
      eval_time,
      exp_samples: services.map((service) => ({ labels: `{service="${service}"}`, value: 1 })),
    });
    const down = Object.keys(FATES).filter((fate) => FATES[fate]?.isDown);
    const paging = operations().filter(({ name }) => !SILENT.includes(name));
    const pages = paging.flatMap(({ id }) => down.map((fate) => `${id}: ${fate}`));
    t.ok(paging.length > 15);
    const slowly = operations().map(({ id, labels }) => series(id, labels, '503', '0+15x40'));
    const warned = operations().flatMap(({ id, name }) => (name === 'feed' ? [] : [id]));
    const tests = (interval: string, input_series: object[], ...promql_expr_test: object[]) =>
      JSON.stringify({
        rule_files: ['rules.yaml'],
        evaluation_interval: interval === '1m' ? '1m' : '1h',
        tests: [{ interval, input_series, promql_expr_test }],
      });
    const said = await failuresWith(
      t,
      readRules().file,
      new Map([
        ['rules.test.yaml', tests('1m', input, firing('LatchkeyErrorBudgetFast', '60m', pages))],
        ['rules.days.test.yaml', tests('15m', slowly, firing('LatchkeyErrorBudgetSlow', '6h', warned))],
      ]),
    );
    t.equal(said, '');
  },
);

/** What separates installations, in the groupings of all rules but those about single replicas. */
const INSTALLATION = ['cluster', 'namespace', 'service'];

const OF_A_REPLICA = [
  'LatchkeyReplicaDown',
  'LatchkeyReplicaNotReady',
  'LatchkeyEventLoopLate',
  'LatchkeyPoolExhausted',
  'LatchkeyMemoryHigh',
];

test('every rule about more than one replica groups by all that separates installations', (t) => {
  const grouped = [...alerts, ...recordings].filter(({ expr }) => /\b(by|on) \(/.test(expr));
  t.equal(grouped.filter((rule) => 'record' in rule).length, 19);
  for (const { expr } of grouped)
    for (const [, labels = ''] of expr.matchAll(/\b(?:by|on) \(([^)]+)\)/g))
      t.strictSame(labels.split(', ').slice(0, 3), INSTALLATION, expr);
  t.end();
});

// Releases of one namespace, as in the files, and clusters.
for (const label of ['service', 'cluster']) {
  const tests = new Map(
    TESTS.map((file) => {
      const text = readFileSync(join(FOLDER, file), 'utf8');
      return [file, text.replaceAll('service="', `${label}="`).replaceAll('by (service)', `by (${label})`)];
    }),
  );

  test(
    `installations that differ in ${label} are judged apart, and a test notices else`,
    { skip },
    async (t) => {
      if (label !== 'service') t.equal(await failuresWith(t, readRules().file, tests), '');
      const { file, alerts: rules, recordings: series } = readRules();
      const without = INSTALLATION.filter((each) => each !== label).join(', ');
      for (const rule of [...rules, ...series])
        rule.expr = rule.expr.replaceAll(INSTALLATION.join(', '), without);
      const said = await failuresWith(t, file, tests);
      const concerned = alerts.filter(({ alert }) => !OF_A_REPLICA.includes(alert));
      t.strictSame(missedIn(said, concerned), []);
    },
  );
}

/** The alerts that no failure names. */
function missedIn(said: string, changed: Alert[]): string[] {
  return changed.map(({ alert }) => alert).filter((alert) => !said.includes(`alertname=\\"${alert}\\"`));
}

/** What promtool says of other rules and tests. */
async function failuresWith(t: Test, rules: object, tests: Map<string, string>): Promise<string> {
  const folder = t.testdir({});
  cpSync(FOLDER, folder, { recursive: true });
  for (const [file, text] of tests) writeFileSync(join(folder, file), text);
  // JSON is valid YAML.
  writeFileSync(join(folder, 'rules.yaml'), JSON.stringify(rules));
  return (await Promise.all(TESTS.map((file) => failuresOf(folder, file)))).join('');
}

test('every alert has a summary, a severity and a link to the runbook', (t) => {
  const text = readFileSync(RULES_FILE, 'utf8');
  for (const name of names) t.equal(new Set(severitiesOf(name)).size, severitiesOf(name).length, name);
  for (const { alert, labels, annotations } of alerts) {
    t.match(alert, /^Latchkey[A-Z]/);
    t.match(labels.severity, /^(critical|warning)$/, alert);
    t.strictSame(Object.keys(annotations).sort(), ['description', 'runbook_url', 'summary'], alert);
    t.equal(annotations.runbook_url, `docs/runbook.md#${alert.toLowerCase()}`);
  }
  for (const { record } of recordings) t.ok(text.split(record).length > 2, `${record} is used`);
  t.end();
});

test('docs/runbook.md has an entry for each alert, and no others', (t) => {
  const text = readFileSync(join(ROOT, 'docs/runbook.md'), 'utf8');
  const entries = text.split(/^### /m).slice(1);
  t.strictSame(entries.map((entry) => entry.split('\n')[0]).sort(), [...names].sort());
  for (const entry of entries) {
    const [name = ''] = entry.split('\n');
    for (const part of ['Means', 'Look', 'Do', 'Over'])
      t.match(entry, new RegExp(`^- \\*\\*${part}\\*\\*: \\S`, 'm'), `${name}: ${part}`);
    const severities = severitiesOf(name).map((severity) => `\`${severity}\``);
    t.equal(/^`[^]*?`$/m.exec(entry)?.[0], severities.join(', '), name);
  }
  t.end();
});

/** Alerts whose entry speaks of 500 or 503 at other operations, or of one that the objective does not count. */
const OTHER_FAILURES = [
  'LatchkeyErrorBudgetFast',
  'LatchkeyFeedLags',
  'LatchkeyLoginsShed',
  'LatchkeyRefreshesHeld',
  'LatchkeyRevocationsStuck',
];

test('the entry of LatchkeyErrorBudgetFast names each alert that means 5xx at refresh or verify', (t) => {
  const entries = readFileSync(join(ROOT, 'docs/runbook.md'), 'utf8').split(/^### /m);
  const nameOf = (entry: string) => entry.split('\n')[0] ?? '';
  const budget = entries.find((entry) => nameOf(entry) === 'LatchkeyErrorBudgetFast') ?? '';
  const failing = entries.filter((entry) => /^- \*\*Means\*\*[^]*?\b50[03]\b[^]*?^- \*\*Look/m.test(entry));
  const causes = failing.map(nameOf).filter((name) => !OTHER_FAILURES.includes(name));
  t.ok(causes.includes('LatchkeyClockSkew') && causes.length > 5, causes.join());
  for (const name of causes) t.match(budget, name);
  t.end();
});

/** Whether some installation has data and does not fire. */
function someDoNotFire({ input_series: series = [], promql_expr_test: checks }: Group): boolean {
  const given = releasesIn(series.map(({ series: text }) => text));
  const firing = releasesIn(
    checks.flatMap(({ exp_samples: samples }) => samples.map(({ labels }) => labels)),
  );
  return [...given].some((name) => !firing.has(name));
}

function releasesIn(texts: string[]): Set<string> {
  return new Set(texts.map((text) => /service="([^"]*)"/.exec(text)?.[1] ?? ''));
}

/** Promtool's report of failing tests; empty if all pass. */
async function failuresOf(folder: string, file: string): Promise<string> {
  const child = spawn('promtool', ['test', 'rules', join(folder, file)]);
  let said = '';
  child.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number];
  return code === 0 ? '' : said;
}
