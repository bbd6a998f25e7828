import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { parse } from 'yaml';
import { toolsMissing } from '../support/tools.ts';
import { ROOT, scratch } from './render.ts';

const skip = toolsMissing('helm');
const SOURCES = [
  'charts',
  'k8s',
  'deploy/prometheus',
  'deploy/grafana',
  'docs/openapi.json',
  'scripts/k8s.mjs',
  'scripts/budget-rules.mjs',
  'scripts/config-schema.mjs',
  '.oxfmtrc.json',
];

function run(root: string, ...flags: string[]): { status: number | null; lines: string[] } {
  const script = join(root, 'scripts/k8s.mjs');
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...flags], { encoding: 'utf8' });
  return { status, lines: (stdout + stderr).split('\n').filter(Boolean) };
}

/** A copy of all that the script reads and writes. */
function copyOf(t: Test): string {
  const root = scratch(t);
  for (const folder of ['deploy', 'docs']) mkdirSync(join(root, folder));
  symlinkSync(join(ROOT, 'dist'), join(root, 'dist'));
  for (const path of SOURCES) cpSync(join(ROOT, path), join(root, path), { recursive: true });
  return root;
}

test(
  'k8s/ is what the chart renders, and the chart has its copies of deploy and of the configuration',
  { skip },
  (t) => {
    t.strictSame(run(ROOT, '--check'), { status: 0, lines: [] }, 'run npm run k8s');
    t.end();
  },
);

test('`--check` names each file that was edited, is missing or is left over', { skip }, (t) => {
  const root = copyOf(t);
  const edit = (path: string, text: string) => {
    const file = join(root, path);
    writeFileSync(file, readFileSync(file, 'utf8') + text);
  };
  edit('deploy/prometheus/rules.yaml', '# another comment\n');
  edit('k8s/base/deployment.yaml', '# edited\n');
  edit('charts/latchkey/values.schema.json', '\n');
  rmSync(join(root, 'k8s/components/ingress/ingress.yaml'));
  writeFileSync(join(root, 'k8s/components/network-policy/stores.yaml'), '');
  edit('k8s/overlays/production/kustomization.yaml', '# by hand\n');
  t.strictSame(run(root, '--check'), {
    status: 1,
    lines: [
      'charts/latchkey/files/rules.yaml differs from its source: run npm run k8s',
      'charts/latchkey/values.schema.json differs from its source: run npm run k8s',
      'k8s/base/deployment.yaml differs from its source: run npm run k8s',
      'k8s/components/ingress/ingress.yaml is missing: run npm run k8s',
      'k8s/components/monitoring/prometheus-rule.yaml differs from its source: run npm run k8s',
      'k8s/components/network-policy/stores.yaml is left over: run npm run k8s',
    ],
  });
  t.equal(run(root).status, 0);
  t.strictSame(run(root, '--check'), { status: 0, lines: [] });
  t.match(readFileSync(join(root, 'k8s/overlays/production/kustomization.yaml'), 'utf8'), '# by hand');
  t.end();
});

test('an object without a file of its own stops the rendering', { skip }, (t) => {
  const root = copyOf(t);
  const object = 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: another\n';
  writeFileSync(join(root, 'charts/latchkey/templates/another.yaml'), object);
  const { status, lines } = run(root, '--check');
  t.not(status, 0);
  t.match(lines.join('\n'), 'name a file for ConfigMap another in scripts/k8s.mjs');
  t.end();
});

test('every rendered file is in the kustomization beside it', (t) => {
  for (const folder of [
    'base',
    ...readdirSync(join(ROOT, 'k8s/components')).map((it) => `components/${it}`),
  ]) {
    const path = join(ROOT, 'k8s', folder);
    const rendered = readdirSync(path).filter((name) =>
      readFileSync(join(path, name), 'utf8').startsWith('# Rendered from '),
    );
    const { resources = [], configMapGenerator = [] } = parse(
      readFileSync(join(path, 'kustomization.yaml'), 'utf8'),
    ) as { resources?: string[]; configMapGenerator?: { envs?: string[] }[] };
    const named = [...resources, ...configMapGenerator.flatMap(({ envs = [] }) => envs)];
    t.strictSame(
      rendered.filter((name) => !named.includes(name)),
      [],
      folder,
    );
  }
  t.end();
});
