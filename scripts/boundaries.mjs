// `npm run boundaries`: checks every import in src/ and packages/*/src/ against the table in .dependency-cruiser.cjs.
// Fails also if it read nothing: a tool that cannot parse this TypeScript finds no modules and no violations.
import { readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { cruise } from 'dependency-cruiser';
import extractTSConfig from 'dependency-cruiser/config-utl/extract-ts-config';

const { layers, forbidden, options } = createRequire(import.meta.url)(
  join(process.cwd(), '.dependency-cruiser.cjs'),
);

const ROOTS = [
  'src',
  'packages/agent/src',
  'packages/client/src',
  'packages/load/src',
  'packages/verifier/src',
];

const { output } = await cruise(
  ROOTS,
  { ...options, ruleSet: { forbidden }, validate: true },
  options.enhancedResolveOptions,
  { tsConfig: extractTSConfig(options.tsConfig.fileName) },
);

const read = output.modules.filter(({ source }) => isOurs(source));
const imports = read.reduce((sum, { dependencies }) => sum + dependencies.length, 0);
const problems = [...notRead(read, imports), ...violations(output.summary.violations)];
for (const problem of problems) process.stderr.write(`${problem}\n`);
process.stdout.write(`boundaries: ${read.length} modules, ${imports} imports, ${problems.length} problems\n`);
if (problems.length > 0) process.exitCode = 1;

function isOurs(path) {
  const isBelow = ROOTS.some((folder) => path.startsWith(`${folder}/`));
  return isBelow && path.endsWith('.ts') && !path.startsWith('src/generated/');
}

/** Every file must have been read, every layer must exist, and files import each other. */
function notRead(modules, count) {
  const seen = new Set(modules.map(({ source }) => source));
  const files = ROOTS.flatMap((folder) =>
    readdirSync(folder, { recursive: true }).map((name) => join(folder, name)),
  ).filter(isOurs);
  return [
    ...files.filter((file) => !seen.has(file)).map((file) => `not checked: ${file}`),
    ...files
      .filter((file) => !layers.some(({ files: pattern }) => new RegExp(pattern).test(file)))
      .map((file) => `not checked: ${file} belongs to no layer of .dependency-cruiser.cjs`),
    ...layers
      .filter(({ files: pattern }) => !files.some((file) => new RegExp(pattern).test(file)))
      .map(({ name }) => `not checked: the layer ${name} has no file`),
    ...(count < files.length ? [`not checked: ${count} imports in ${files.length} files`] : []),
  ];
}

function violations(found) {
  return found.map(({ rule, from, to, cycle }) =>
    cycle ? `${rule.name}: ${cycle.map(({ name }) => name).join(' -> ')}` : `${rule.name}: ${from} -> ${to}`,
  );
}
