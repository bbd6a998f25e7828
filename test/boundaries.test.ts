// suite: tools
import { dirname, join } from 'node:path';
import { test } from 'tap';
import { ROOT } from './support/documents.ts';

interface Boundaries {
  check: (sources: Map<string, string>) => { imports: number; problems: string[] };
  readSources: () => Map<string, string>;
}

const { check, readSources } = (await import(join(ROOT, 'scripts/boundaries.mjs'))) as Boundaries;

/** An import that the table refuses, and the rule that refuses it. */
const PLANTS: [file: string, statement: string, refusedBy: string][] = [
  ['src/domain/errors.ts', `import type { Redis } from 'ioredis';`, 'domain-imports'],
  [
    'src/http/request.ts',
    `export const load = () => import('../infra/redis/script-client.ts');`,
    'http-imports',
  ],
  ['src/infra/redis/script-client.ts', `import '../../http/token-pair-response.ts';`, 'infra-redis-imports'],
  ['src/infra/memory/token-states.ts', `import 'ioredis';`, 'infra-memory-imports'],
  ['src/infra/crypto/keys.ts', `import '../postgres/rows.ts';`, 'infra-crypto-imports'],
  ['src/infra/postgres/rows.ts', `import '../../composition/compose.ts';`, 'infra-postgres-imports'],
  ['src/infra/embedded/server-account.ts', `import '../redis/script-client.ts';`, 'infra-embedded-imports'],
  ['src/app.ts', `import './domain/errors.ts';`, 'app-imports-as-type-only'],
  ['src/app.ts', `import './infra/redis/script-client.ts';`, 'app-imports'],
  ['src/composition/compose.ts', `import '../app.ts';`, 'composition-imports-as-type-only'],
  ['src/composition/compose.ts', `import '../infra/embedded/postgres.ts';`, 'composition-imports'],
  ['src/config/config.ts', `import '../infra/redis/script-client.ts';`, 'config-imports'],
  ['src/server.ts', `import './infra/redis/script-client.ts';`, 'server-imports'],
  ['src/cli.ts', `import './http/token-pair-response.ts';`, 'cli-imports'],
  ['src/infra/metrics/registry.ts', `import '../redis/script-client.ts';`, 'infra-metrics-imports'],
  ['src/infra/tracing/open-tracing.ts', `import './open-telemetry.ts';`, 'opentelemetry-when-asked-for'],
  ['packages/verifier/src/bearer.ts', `import 'fastify-plugin';`, 'verifier-imports'],
  ['packages/verifier/src/verifier-middleware.ts', `import 'node:http';`, 'verifier-imports-as-type-only'],
  ['packages/agent/src/log.ts', `import '../../verifier/src/bearer.ts';`, 'agent-imports'],
  ['packages/client/src/pair.ts', `import 'node:buffer';`, 'client-imports'],
  ['packages/load/src/judge.ts', `import '../../../src/http/token-codec.ts';`, 'load-imports'],
  ['src/domain/audit/kind.ts', `import './event.ts';`, 'no-circular'],
  ['src/domain/tokens/revoke.ts', `import type { A } from '../sessions/rotation.ts';`, 'no-circular-folders'],
  ['src/domain/principal.ts', `import './sizing/plan.ts';`, 'domain-ground-floor'],
  ['src/http/ops.ts', `import '@fastify/type-provider-typebox';`, 'no-dev-dependencies'],
  ['src/http/problem.ts', `import './no-such-file.ts';`, 'resolvable'],
];

test('the sources follow the table', (t) => {
  const { imports, problems } = check(readSources());
  t.strictSame(problems, []);
  t.ok(imports > 1000, `${imports} imports`);
  t.end();
});

test('refuses each planted import', (t) => {
  const sources = readSources();
  for (const [file, statement] of PLANTS) {
    const text = sources.get(file);
    if (text === undefined) throw new Error(`${file} has moved`);
    sources.set(file, `${text}\n${statement}\n`);
  }
  const { problems } = check(sources);
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

test('refuses a small file with one importer, and accepts it with two', (t) => {
  const importing = (...importers: string[]) => {
    const sources = readSources();
    sources.set('src/domain/tokens/x.ts', 'export const x = 1;\n');
    for (const file of importers)
      sources.set(file, `import { x } from './x.ts';\n${sources.get(file) ?? ''}\nvoid x;\n`);
    return check(sources).problems;
  };
  const [one, two] = ['src/domain/tokens/claims.ts', 'src/domain/tokens/revoke.ts'] as const;
  t.strictSame(importing(one), [`splinter: src/domain/tokens/x.ts -> ${one}`]);
  t.strictSame(importing(one, two), []);
  t.end();
});
