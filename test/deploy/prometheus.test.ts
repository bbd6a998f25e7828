import { spawnSync } from 'node:child_process';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { toolsMissing } from '../support/tools.ts';

const ROOT = new URL('../../../', import.meta.url).pathname;
const skip = toolsMissing('promtool');

test('Prometheus accepts its configuration and our rules', { skip }, (t) => {
  const { status, output } = check(join(ROOT, 'deploy/prometheus'));
  t.equal(status, 0, output);
  t.match(output, /1 rule files found/);
  t.end();
});

test('promtool finds a planted mistake', { skip }, (t) => {
  const text = readFileSync(join(ROOT, 'deploy/prometheus/prometheus.yaml'), 'utf8');
  for (const [right, wrong] of [
    ['dns_sd_configs', 'dns_sd_config'],
    ['rules.yaml', 'rule.yaml'],
    ['scrape_interval: 5s', 'scrape_interval: 5'],
  ] as const) {
    const folder = t.testdir({});
    cpSync(join(ROOT, 'deploy/prometheus'), folder, { recursive: true });
    const planted = text.replace(right, wrong);
    t.not(planted, text);
    writeFileSync(join(folder, 'prometheus.yaml'), planted);
    t.equal(check(folder).status, 1, wrong);
  }
  t.end();
});

function check(folder: string): { status: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync(
    'promtool',
    ['check', 'config', join(folder, 'prometheus.yaml')],
    {
      encoding: 'utf8',
    },
  );
  return { status, output: stdout + stderr };
}
