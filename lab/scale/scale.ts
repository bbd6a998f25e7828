/**
 * `npm run scale`: how costs grow with replicas, connections, sessions, users, the tokens of one user, what
 * changes, the readers of the feed, what they confirm, and the uses that verifiers report. The last part checks
 * the cost model of src/domain/sizing against mixes that it was not fitted to.
 *
 * Arguments: the parts to run, all by default: replicas connections sessions new cold tokens changes readers
 * confirmed uses replay proxied large mixed.
 *
 * --json    one line of JSON
 * --save    writes these parts to docs/scaling.json, and the tables of docs/performance.md
 * --smoke   only shows that it runs
 * --costs   measures nothing: prints the costs of the plan, which follow from the committed figures, as JSON; with --save,
 *           writes them to src/domain/sizing/costs.ts, and what the plan makes of them to docs/performance.md
 */
import { parseArgs } from 'node:util';
import { makeWorld } from '../bench/world.ts';
import { loadBefore, print, save } from '../table.ts';
import { measureBigUser } from './big-user.ts';
import { measureChanges } from './changes.ts';
import { measureConfirmed } from './confirmed.ts';
import { measuredCosts, writeCosts } from './costs.ts';
import { measure, type Bench } from './measure.ts';
import { measureMixed, MIXED, SMOKE_MIX } from './mixed.ts';
import { populate } from '../bench/population.ts';
import { measureProxied } from './proxied.ts';
import { measureReaders } from './readers.ts';
import { measureReplay } from './replay.ts';
import {
  committedFigures,
  FIGURES,
  machineNow,
  PARTS,
  type Part,
  type ScaleDocument,
} from './scale-document.ts';
import { amount, list } from './settings.ts';
import { openStoreMeter } from './stores.ts';
import { figuresOf, scaleText } from './tables.ts';
import { measureUses } from './uses.ts';

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    costs: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    save: { type: 'boolean', default: false },
    smoke: { type: 'boolean', default: false },
  },
});
const unknown = positionals.filter((name) => !PARTS.some((part) => part === name));
if (unknown.length > 0) throw new Error(`unknown part: ${unknown.join(', ')}. Parts: ${PARTS.join(', ')}`);
if (flags.save && flags.smoke) throw new Error('--save needs a run without --smoke');
/** A smoke leaves out the part that runs the same code as another one. */
const usual = PARTS.filter((part) => !flags.smoke || part !== 'connections');
const wants = (part: Part) => (positionals.length === 0 ? usual : positionals).includes(part);
const lists = (name: Parameters<typeof list>[0]) => list(name, flags.smoke);
/** Where the number of sessions does not matter: few enough that each replica keeps their verified tokens. */
const FEW = flags.smoke ? 200 : 1000;

// Ctrl-C also ends the servers. Then the load fails, and the usual cleanup runs.
process.once('SIGINT', () => undefined);

if (flags.costs) await showCosts();
else await measureParts();

async function showCosts(): Promise<void> {
  const costs = measuredCosts();
  await print(true, costs, '');
  if (!flags.save) return;
  await writeCosts(costs);
  await save(figuresOf(committedFigures(), costs));
}

async function measureParts(): Promise<void> {
  const load = loadBefore(flags.save);
  const world = await makeWorld();
  const meter = await openStoreMeter(world);
  const bench: Bench = {
    world,
    meter,
    rounds: amount('SCALE_ROUNDS', flags.smoke),
    seconds: amount('SCALE_SECONDS', flags.smoke),
    hashSeconds: amount('SCALE_HASH_SECONDS', flags.smoke),
    reportSeconds: amount('SCALE_REPORT_SECONDS', flags.smoke),
    newTokens: amount('SCALE_NEW', flags.smoke),
  };
  try {
    const document = await measureAll(bench, load);
    await print(flags.json, document, scaleText(document));
    const result = { ...committedFigures(), ...document };
    if (flags.save) await save(figuresOf(result), { name: FIGURES, result });
  } finally {
    await meter.close();
    await world.close();
  }
}

async function measureAll(bench: Bench, load: number): Promise<ScaleDocument> {
  const { world, meter } = bench;
  const document: ScaleDocument = {};
  const note = async <Name extends Part>(part: Name, work: () => Promise<ScaleDocument[Name]>) => {
    if (!wants(part)) return;
    process.stderr.write(`${part} …\n`);
    document[part] = await work();
  };
  const machine = () => machineNow(load);
  const operations = ['verify', 'refresh'] as const;
  await note('replicas', async () => {
    const setUp = { replicas: lists('SCALE_REPLICAS'), connections: [64] };
    const measured = await measure(bench, await populate(world, FEW), {
      ...setUp,
      operations: [...operations, 'login'],
    });
    return { ...measured, machine: machine() };
  });
  await note('connections', async () => {
    const setUp = { operations, replicas: [1], connections: lists('SCALE_CONNECTIONS') };
    const { figures } = await measure(bench, await populate(world, FEW), setUp);
    return { figures, machine: machine() };
  });
  await note('sessions', async () => {
    const figures = [];
    // Redis keeps the sessions of earlier steps. Read once: later, buffers of past connections would be in it.
    const { redis: empty } = await meter.bytes();
    let held = 0;
    for (const sessions of lists('SCALE_SESSIONS')) {
      const population = await populate(world, sessions);
      held += sessions;
      const { redis, ...tables } = await meter.bytes();
      const bytes = { redis: ((redis - empty) * sessions) / held, ...tables };
      const setUp = { operations, replicas: [1], connections: [64] };
      figures.push({ sessions, bytes, figures: (await measure(bench, population, setUp)).figures });
    }
    return { figures, machine: machine() };
  });
  await note('new', async () => {
    const setUp = { operations: ['first verify'] as const, replicas: [1], connections: [64] };
    const { figures } = await measure(bench, await populate(world, FEW), setUp);
    return { figures, machine: machine() };
  });
  await note('cold', async () => {
    const setUp = { operations: ['cold refresh'] as const, replicas: [1], connections: [64] };
    const population = await populate(world, FEW, { cold: amount('SCALE_COLD', flags.smoke) });
    const { figures } = await measure(bench, population, setUp);
    return { figures, machine: machine() };
  });
  await note('tokens', async () => {
    const figures = [];
    for (const tokens of lists('SCALE_TOKENS')) figures.push(...(await measureBigUser(bench, tokens)));
    return { figures, machine: machine() };
  });
  await note('changes', async () => {
    const setUp = {
      replicas: lists('SCALE_CHANGE_REPLICAS'),
      count: amount('SCALE_CHANGES', flags.smoke),
      rounds: amount('SCALE_CHANGE_ROUNDS', flags.smoke),
      afterwards: amount('SCALE_AFTERWARDS', flags.smoke),
    };
    return { figures: await measureChanges(bench, setUp), machine: machine() };
  });
  await note('readers', async () => ({
    figures: await measureReaders(bench, lists('SCALE_READERS')),
    machine: machine(),
  }));
  await note('confirmed', async () => {
    const setUp = {
      readers: amount('SCALE_CONFIRMING', flags.smoke),
      replicas: amount('SCALE_CONFIRMED_REPLICAS', flags.smoke),
      seconds: amount('SCALE_CONFIRMED_SECONDS', flags.smoke),
    };
    return { figures: await measureConfirmed(bench, setUp), machine: machine() };
  });
  await note('uses', async () => {
    const setUp = {
      tokens: amount('SCALE_USED', flags.smoke),
      verifiers: amount('SCALE_VERIFIERS', flags.smoke),
      minutes: amount('SCALE_MINUTES', flags.smoke),
      minute: amount('SCALE_MINUTE', flags.smoke),
    };
    return { figures: await measureUses(bench, setUp), machine: machine() };
  });
  await note('replay', async () => {
    const setUp = {
      ends: amount('SCALE_REPLAY_ENDS', flags.smoke),
      users: amount('SCALE_REPLAY_USERS', flags.smoke),
      rounds: amount('SCALE_REPLAY_ROUNDS', flags.smoke),
    };
    return { figures: await measureReplay(world, setUp), machine: machine() };
  });
  await note('proxied', async () => ({
    figures: await measureProxied(bench, await populate(world, FEW)),
    machine: machine(),
  }));
  await note('large', async () => {
    const users = amount('SCALE_LARGE', flags.smoke);
    const held = amount('SCALE_LARGE_HELD', flags.smoke);
    const population = await populate(world, held, { users: held, cold: users - held });
    const { tokens, users: ofUsers, devices } = await meter.bytes();
    const setUp = { operations: ['refresh', 'cold refresh'] as const, replicas: [1], connections: [64] };
    const { figures } = await measure(bench, population, setUp);
    const bytes = { tokens, users: ofUsers, devices };
    return { figures: [{ users, bytes, figures }], machine: machine() };
  });
  await note('mixed', async () => {
    const figures = [];
    for (const setUp of flags.smoke ? [SMOKE_MIX] : MIXED)
      figures.push(await measureMixed(bench, setUp, amount('SCALE_MIXED_COLD', flags.smoke)));
    return { figures, machine: machine() };
  });
  return document;
}
