import { spawnSync } from 'node:child_process';
import {
  appendFileSync,
  cpSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test, type Test } from 'tap';

const ROOT = new URL('../../', import.meta.url).pathname;

/** An import that the table refuses, and the rule that refuses it. */
const PLANTS: [file: string, statement: string, refusedBy: string][] = [
  ['src/domain/clock.ts', `import 'fastify';`, 'domain-imports'],
  ['src/domain/errors.ts', `import type { Redis } from 'ioredis';`, 'domain-imports'],
  ['src/domain/user.ts', `import '../../infra/redis/ask.ts';`, 'domain-imports'],
  ['src/domain/users/ports.ts', `import 'node:fs';`, 'domain-imports'],
  ['src/http/caller/device.ts', `import '../../infra/redis/ask.ts';`, 'http-imports'],
  ['src/http/token-pair-response.ts', `import 'ioredis';`, 'http-imports'],
  ['src/http/schemas.ts', `import '@prisma/client';`, 'http-imports'],
  ['src/http/caller/fingerprint.ts', `import type { Config } from '../../config/config.ts';`, 'http-imports'],
  ['src/http/request.ts', `export const load = () => import('../infra/redis/ask.ts');`, 'http-imports'],
  ['src/infra/redis/ask.ts', `import '../../http/token-pair-response.ts';`, 'infra-redis-imports'],
  ['src/infra/memory/token-states.ts', `import 'ioredis';`, 'infra-memory-imports'],
  ['src/infra/crypto/keys.ts', `import '../postgres/rows.ts';`, 'infra-crypto-imports'],
  ['src/infra/postgres/rows.ts', `import '../../composition/compose.ts';`, 'infra-postgres-imports'],
  ['src/infra/embedded/server-account.ts', `import '../redis/ask.ts';`, 'infra-embedded-imports'],
  ['src/app.ts', `import './domain/errors.ts';`, 'app-imports-as-type-only'],
  ['src/app.ts', `import './infra/redis/ask.ts';`, 'app-imports'],
  ['src/composition/compose.ts', `import '../app.ts';`, 'composition-imports-as-type-only'],
  ['src/composition/compose.ts', `import '../infra/embedded/postgres.ts';`, 'composition-imports'],
  ['src/config/config.ts', `import '../infra/redis/ask.ts';`, 'config-imports'],
  ['src/server.ts', `import './infra/redis/ask.ts';`, 'server-imports'],
  ['src/cli.ts', `import './http/token-pair-response.ts';`, 'cli-imports'],
  ['src/infra/metrics/registry.ts', `import '../redis/ask.ts';`, 'infra-metrics-imports'],
  ['src/infra/tracing/traced.ts', `import '@opentelemetry/api';`, 'opentelemetry-when-asked-for'],
  ['src/infra/tracing/open-tracing.ts', `import './open-telemetry.ts';`, 'opentelemetry-when-asked-for'],
  [
    'packages/verifier/src/feed.ts',
    `import type { Clock } from '../../../src/domain/clock.ts';`,
    'verifier-imports',
  ],
  ['packages/verifier/src/bearer.ts', `import 'fastify-plugin';`, 'verifier-imports'],
  ['packages/verifier/src/runtime.ts', `import 'node:timers/promises';`, 'verifier-imports'],
  ['packages/verifier/src/fastify-verifier.ts', `import type { A } from 'fastify';`, 'verifier-imports'],
  ['packages/verifier/src/verifier-middleware.ts', `import 'node:http';`, 'verifier-imports-as-type-only'],
  ['packages/agent/src/log.ts', `import '../../../src/runtime/log.ts';`, 'agent-imports'],
  ['packages/agent/src/log.ts', `import '../../verifier/src/bearer.ts';`, 'agent-imports'],
  ['packages/client/src/pair.ts', `import 'node:buffer';`, 'client-imports'],
  ['packages/load/src/judge.ts', `import '../../../src/http/token-codec.ts';`, 'load-imports'],
  ['src/http/caller/fingerprint.ts', `import '../../../packages/verifier/src/bearer.ts';`, 'http-imports'],
  ['src/domain/audit/kind.ts', `import './event.ts';`, 'no-circular'],
  ['src/domain/tokens/revoke.ts', `import type { A } from '../sessions/rotation.ts';`, 'no-circular-folders'],
  ['src/domain/principal.ts', `import './sizing/plan.ts';`, 'domain-ground-floor'],
  ['src/http/ops/health.ts', `import '@fastify/type-provider-typebox';`, 'no-dev-dependencies'],
  ['src/http/problem.ts', `import './no-such-file.ts';`, 'resolvable'],
];

test('the sources follow the table, and the tool checks every file', (t) => {
  const { status, stdout, stderr } = boundaries(ROOT);
  t.equal(stderr, '');
  t.equal(status, 0);
  const files = [
    'src',
    'packages/agent/src',
    'packages/client/src',
    'packages/load/src',
    'packages/verifier/src',
  ]
    .flatMap((folder) => readdirSync(join(ROOT, folder), { recursive: true }).map(String))
    .filter((name) => name.endsWith('.ts') && !name.startsWith('generated'));
  t.match(stdout, new RegExp(`^boundaries: ${files.length} modules, [1-9]\\d+ imports, 0 problems`));
  t.end();
});

test('refuses each planted import', (t) => {
  const root = copyOfTheProject(t);
  for (const [file, statement] of PLANTS) appendFileSync(join(root, file), `\n${statement}\n`);
  const { status, stderr } = boundaries(root);
  t.equal(status, 1);
  const problems = stderr.split('\n');
  for (const [file, statement, rule] of PLANTS) {
    const target = /'(?:node:)?(?:\.{1,2}\/)*(.+)'/.exec(statement)?.[1] ?? '';
    const named = rule === 'no-circular-folders' ? [dirname(file), dirname(target)] : [file, target];
    const found = problems.some(
      (line) => line.startsWith(`${rule}: `) && named.every((path) => line.includes(path)),
    );
    t.ok(found, `${rule} refuses ${statement} in ${file}`);
  }
  t.end();
});

test('refuses a file outside every layer', (t) => {
  const root = copyOfTheProject(t);
  writeFileSync(join(root, 'src/helpers.ts'), 'export const one = 1;\n');
  const { status, stderr } = boundaries(root);
  t.equal(status, 1);
  t.match(stderr, 'src/helpers.ts belongs to no layer');
  t.end();
});

test('fails if the tool skipped files', (t) => {
  const root = copyOfTheProject(t);
  const path = join(root, '.dependency-cruiser.cjs');
  const blinded = readFileSync(path, 'utf8').replace('options: {', "options: { exclude: '^src/domain/',");
  writeFileSync(path, blinded);
  const { status, stderr } = boundaries(root);
  t.equal(status, 1);
  t.match(stderr, 'not checked: src/domain/sessions/rotation.ts');
  t.end();
});

test('fails if a layer has no file', (t) => {
  const root = copyOfTheProject(t);
  rmSync(join(root, 'src/infra/memory'), { recursive: true });
  const { status, stderr } = boundaries(root);
  t.equal(status, 1);
  t.match(stderr, 'the layer infra-memory has no file');
  t.end();
});

function boundaries(cwd: string) {
  return spawnSync(process.execPath, [join(ROOT, 'scripts/boundaries.mjs')], { cwd, encoding: 'utf8' });
}

function copyOfTheProject(t: Test): string {
  const root = mkdtempSync(join(tmpdir(), 'latchkey-boundaries-'));
  t.teardown(() => {
    rmSync(root, { recursive: true, force: true });
  });
  for (const name of ['src', 'packages', 'package.json', 'tsconfig.json', '.dependency-cruiser.cjs']) {
    cpSync(join(ROOT, name), join(root, name), { recursive: true });
  }
  symlinkSync(join(ROOT, 'node_modules'), join(root, 'node_modules'));
  return root;
}
