import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';

const ROOT = new URL('../../../', import.meta.url).pathname;
const CHARTS = ['sign-outs', 'thief-found'];

test('the committed charts show the tables of docs/rotation.md', (t) => {
  for (const name of CHARTS) {
    const { status, stdout } = print(name);
    t.equal(status, 0, name);
    t.equal(readFileSync(join(ROOT, `docs/images/${name}.svg`), 'utf8'), stdout, name);
  }
  t.end();
});

function print(name: string) {
  const words = [join(ROOT, 'scripts/charts.mjs'), '--print', name];
  return spawnSync(process.execPath, words, { encoding: 'utf8' });
}
