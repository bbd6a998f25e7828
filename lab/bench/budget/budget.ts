/**
 * `npm run bench:budget`: where the CPU time of a request goes, by part, from profiles of the service under load.
 *
 * --before SCRIPT   also measures an older build (its dist/src/server.js)
 * --json            one line of JSON
 *
 * BENCH_BUDGET_ROUNDS and BENCH_BUDGET_SECONDS change how long each operation runs.
 */
import { parseArgs } from 'node:util';
import type { Operation } from '../operations.ts';
import { fixed, print, reportText, sourceText, thisMachine, type Table } from '../../table.ts';
import { makeWorld } from '../world.ts';
import { measureBudget } from './measure.ts';
import { PARTS, type Part } from './parts.ts';

/** A build that answers one operation. */
interface Column {
  label: string;
  /** CPU microseconds of one request, by part. */
  parts: Record<Part, number>;
}

const OPERATIONS: readonly Operation[] = ['static document', 'verify', 'introspection', 'refresh'];
const SERVICE = new URL('../../../src/server.js', import.meta.url).pathname;

const { values: flags } = parseArgs({
  options: {
    before: { type: 'string' },
    json: { type: 'boolean', default: false },
  },
});
const rounds = {
  count: Number(process.env.BENCH_BUDGET_ROUNDS ?? 7),
  seconds: Number(process.env.BENCH_BUDGET_SECONDS ?? 1),
};

const world = await makeWorld();
const columns: Column[] = [];
try {
  for (const operation of OPERATIONS) {
    for (const [build, script] of [
      ['before', flags.before],
      ['now', SERVICE],
    ] as const) {
      if (script === undefined) continue;
      const parts = await measureBudget(world, operation, script, rounds);
      columns.push({ label: `${operation}, ${build}`, parts });
    }
  }
} finally {
  await world.close();
}

const table: Table = {
  title: 'CPU µs of a request by part',
  head: ['part', ...columns.map(({ label }) => label)],
  rows: [
    ...PARTS.map((part) => [part, ...columns.map(({ parts }) => fixed(parts[part], 1))]),
    [
      'all',
      ...columns.map(({ parts }) =>
        fixed(
          PARTS.reduce((sum, part) => sum + parts[part], 0),
          1,
        ),
      ),
    ],
  ],
};
const result = { date: new Date().toISOString(), machine: thisMachine(), rounds, columns };
const details = `medians of ${rounds.count} rounds of ${rounds.seconds} s`;
const text = reportText([table], [], sourceText(result.date, result.machine, details));
await print(flags.json, result, text);
