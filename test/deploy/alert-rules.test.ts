import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { parse } from 'yaml';
import { readRules, ROOT, RULES_FILE, type Alert } from '../support/alert-rules.ts';
import { toolsMissing } from '../support/tools.ts';

const skip = toolsMissing('promtool');
const FOLDER = join(ROOT, 'deploy/prometheus');
const TESTS = ['rules.test.yaml', 'rules.days.test.yaml'];
const { alerts, recordings } = readRules();
const names = alerts.map(({ alert }) => alert);

interface Check {
  expr: string;
  exp_samples: { labels: string }[];
}

interface Group {
  /** Matches the alert's name, with an optional suffix. */
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
  for (const { alert, for: wait } of alerts) {
    const own = groups.filter((group) => alertOf(group) === alert);
    const checks = own.flatMap((group) => group.promql_expr_test);
    for (const { expr } of checks)
      t.equal(expr, `count by (service) (ALERTS{alertname="${alert}", alertstate="firing"})`);
    const isSilent = ({ exp_samples: firing }: Check) => firing.length === 0;
    t.notOk(checks.every(isSilent), `${alert} fires`);
    t.ok(own.some(someDoNotFire), `${alert} does not fire for an installation just below its threshold`);
    if (wait !== undefined) t.ok(checks.some(isSilent), `${alert} waits`);
  }
  t.end();
});

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
  t.equal(grouped.filter((rule) => 'record' in rule).length, 16);
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
  t.equal(new Set(names).size, names.length);
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
    const { labels } = alerts.find(({ alert }) => alert === name) ?? {};
    t.equal(/^`(critical|warning)`$/m.exec(entry)?.[1], labels?.severity, name);
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
