import { spawnSync } from 'node:child_process';
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
