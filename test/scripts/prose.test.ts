import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test, type Test } from 'tap';
import { bareEnvironment } from '../support/environment.ts';
import { testFolder } from '../support/folder.ts';

const PROGRAM = new URL('../../../scripts/prose.mjs', import.meta.url).pathname;

/** A file of each kind, with a refused word on its last line. */
const PLANTS: Readonly<Record<string, string>> = {
  'ARCHITECTURE.md': '# Architecture\n\nWhoever asks.\n',
  'README.md': '# Latchkey\n\nFor anybody.\n',
  'docs/adr/0099-planted.md': '# 99. Planted\n\n`whichever`\n',
  'k8s/README.md': '# Kubernetes\n\n| a | thereby |\n',
  'src/domain/comment.ts': '// Nobody reads this.\n',
  'src/domain/docstring.ts': '/**\n * For its\n * caller, or somebody. */\n',
  'src/domain/string.ts': `export const text = 'whatever';\n`,
  'src/domain/template.ts': 'export const text = (name: string) => `${name} or everybody`;\n',
  'src/domain/name.ts': 'export const whateverComes = 1;\n',
  'src/infra/redis/lua/planted.lua': '-- whoever calls it\n',
  'test/domain/planted.test.ts': `test('nobody is signed out', () => {});\n`,
  'scripts/planted.mjs': 'process.stderr.write("whichever comes first");\n',
  'prisma/schema.prisma': '/// whoever it belongs to\n',
  'deploy/prometheus/rules.yaml': 'groups:\n  # for whoever is on call\n',
  'deploy/grafana/latchkey.json': '{\n  "title": "Is somebody attacking?"\n',
  'deploy/nginx/nginx.conf': 'events {}\n# whatever it sends\n',
  'deploy/caddy/Caddyfile': ':8080 {\n\t# whoever asks\n',
  'k8s/base/deployment.yaml': '# whichever is first\n',
  'k8s/components/pgbouncer/pgbouncer.ini': '; whoever waits\n',
  '.ci/run': '#!/usr/bin/env bash\n# whatever comes of it\n',
  '.dependency-cruiser.cjs': '// Whoever imports it.\n',
  'compose.yaml': '# nobody else\n',
  Dockerfile: '# whoever builds it\n',
};

test('refuses a word in each kind of file', (t) => {
  const root = folder(t, PLANTS);
  const { status, stdout } = prose(root);
  t.equal(status, 1);
  for (const [file, text] of Object.entries(PLANTS)) {
    const line = text.split('\n').length - 1;
    t.ok(
      stdout.split('\n').some((each) => each.startsWith(`${file}:${line}:`)),
      `${file}:${line}`,
    );
  }
  t.end();
});

test('finds a word at the end of a long file', (t) => {
  const text = 'Words that are fine, again and again.\n'.repeat(5_000);
  const { status, stdout } = prose(folder(t, { 'docs/long.md': `${text}Nobody.\n` }));
  t.equal(status, 1);
  t.match(stdout, 'docs/long.md:5001:Nobody: write "no client"');
  t.end();
});

test('accepts other words, spelt as they may be', (t) => {
  const { status, stdout } = prose(folder(t, { 'docs/fine.md': 'A cleint that kwnos sombody else.\n' }));
  t.equal(stdout, '');
  t.equal(status, 0);
  t.end();
});

test('fails if it cannot search', (t) => {
  const { status, stderr } = prose(testFolder(t), '/none');
  t.equal(status, 1);
  t.match(stderr, 'git grep failed');
  t.end();
});

function folder(t: Test, files: Readonly<Record<string, string>>): string {
  const root = testFolder(t);
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, file)), { recursive: true });
    writeFileSync(join(root, file), text);
  }
  return root;
}

function prose(cwd: string, PATH = process.env.PATH) {
  return spawnSync(process.execPath, [PROGRAM], { cwd, env: bareEnvironment({ PATH }), encoding: 'utf8' });
}
