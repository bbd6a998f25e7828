import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { type Alert, metricsIn, readRules, type Recording } from '../support/alert-rules.ts';
import { toolsMissing } from '../support/tools.ts';
import { releaseOf, template } from './chart.ts';
import { only } from './kinds.ts';
import { ROOT } from './render.ts';

const skip = toolsMissing('helm', 'kubectl', 'bash', 'openssl');

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
