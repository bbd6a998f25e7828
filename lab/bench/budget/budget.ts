/**
 * `npm run bench:budget`: where the CPU time of a request goes, by part, from profiles of the service under load.
 *
 * --before SCRIPT   also measures an older build (its dist/src/server.js)
 * --save            writes the table of docs/benchmarks.md, and docs/benchmarks-budget.svg
 *
 * BENCH_BUDGET_ROUNDS and BENCH_BUDGET_SECONDS change how long each operation runs.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Operation } from '../operations.ts';
import { tableMarkdown, withFigures } from '../page.ts';
import { tableText } from '../report.ts';
import { thisMachine } from '../document.ts';
import type { Table } from '../tables.ts';
import { makeWorld } from '../world.ts';
import { budgetChart, totalOf, type Bar } from './chart.ts';
import { measureBudget } from './measure.ts';
import { PARTS } from './parts.ts';

const OPERATIONS: readonly Operation[] = ['static document', 'verify', 'introspection', 'refresh'];
const SERVICE = new URL('../../../src/server.js', import.meta.url).pathname;
const DOCS = new URL('../../../../docs/', import.meta.url).pathname;
const COMMAND = 'npm run bench:budget -- --before OLDER/dist/src/server.js --save';

const { values: flags } = parseArgs({
  options: { before: { type: 'string' }, save: { type: 'boolean', default: false } },
});
const rounds = {
  count: Number(process.env.BENCH_BUDGET_ROUNDS ?? 7),
  seconds: Number(process.env.BENCH_BUDGET_SECONDS ?? 1),
};

const world = await makeWorld();
const bars: Bar[] = [];
try {
  for (const operation of OPERATIONS) {
    for (const [build, script] of [
      ['before', flags.before],
      ['now', SERVICE],
    ] as const) {
      if (script === undefined) continue;
      const parts = await measureBudget(world, operation, script, rounds);
      bars.push({ label: `${operation}, ${build}`, parts });
    }
  }
} finally {
  await world.close();
}

const table: Table = {
  title: 'CPU µs of a request by part',
  head: ['part', ...bars.map(({ label }) => label)],
  rows: [
    ...PARTS.map((part) => [part, ...bars.map(({ parts }) => parts[part].toFixed(1))]),
    ['all', ...bars.map((bar) => totalOf(bar).toFixed(1))],
  ],
};
process.stdout.write(`${tableText(table)}\n`);
if (flags.save) {
  const page = join(DOCS, 'benchmarks.md');
  writeFileSync(join(DOCS, 'benchmarks-budget.svg'), budgetChart(bars));
  const { cores, cpu, node } = thisMachine();
  const machine = `Machine: ${cores} cores (${cpu}), Node ${node}, medians of ${rounds.count} rounds of ${rounds.seconds} s.`;
  writeFileSync(
    page,
    await withFigures(readFileSync(page, 'utf8'), COMMAND, `${tableMarkdown(table)}\n\n${machine}`),
  );
}
