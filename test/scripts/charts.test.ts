import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';

const ROOT = new URL('../../../', import.meta.url).pathname;
const CHARTS = ['sign-outs', 'thief-found'];

test('the committed charts show the tables of docs/rotation.md', (t) => {
  for (const name of CHARTS) {
    const { status, stdout } = print(ROOT, name);
    t.equal(status, 0, name);
    t.equal(readFileSync(join(ROOT, `docs/images/${name}.svg`), 'utf8'), stdout, name);
  }
  t.end();
});

test('a changed figure changes its chart', (t) => {
  const root = t.testdir({});
  mkdirSync(join(root, 'docs'));
  cpSync(join(ROOT, 'scripts/charts.mjs'), join(root, 'scripts/charts.mjs'));
  const text = readFileSync(join(ROOT, 'docs/rotation.md'), 'utf8');
  const changed = text
    .replace('| 254.20 ', '| 154.20 ')
    .replace('| 7.3 min (15.5 min) ', '| 7.4 min (15.5 min) ');
  writeFileSync(join(root, 'docs/rotation.md'), changed);
  for (const name of CHARTS) t.not(print(root, name).stdout, print(ROOT, name).stdout, name);

  writeFileSync(join(root, 'docs/rotation.md'), text.replaceAll('| strict one-time use', '| strict'));
  t.match(print(root, 'sign-outs'), { status: 1, stderr: /no column/ });
  writeFileSync(join(root, 'docs/rotation.md'), '# Nothing\n');
  t.match(print(root, 'thief-found'), { status: 1, stderr: /docs\/rotation\.md has no table/ });
  t.end();
});

test('a chart reads in light and dark mode, and names its unit and its source', (t) => {
  for (const name of CHARTS) {
    const svg = readFileSync(join(ROOT, `docs/images/${name}.svg`), 'utf8');
    t.match(svg, '@media (prefers-color-scheme: dark)', name);
    t.match(
      svg,
      /<text class="axis"[^>]*>(false sign-outs per 1,000 refreshes|minutes from the theft)/,
      name,
    );
    t.match(svg, 'npm run simulate', name);
    t.notMatch(svg, /undefined|NaN|null/, name);
  }
  t.end();
});

function print(root: string, name: string) {
  const words = [join(root, 'scripts/charts.mjs'), '--print', name];
  return spawnSync(process.execPath, words, { encoding: 'utf8' });
}
