/**
 * `npm run bench`: how fast the service is, as shares of the floor (floor.ts) in the same run (speed.ts).
 * Then the latency of verify during a flood of logins, compared with an idle server (flood.ts).
 * Then a timing test: whether the duration of a failed login reveals why it failed (login-times.ts).
 * Then the memory of a replica under both loads, compared with what the configuration check assumes (memory.ts).
 * Then how long filling the largest cache of verified tokens stops the event loop (stall.ts).
 * Then the bytes of a session in Redis and PostgreSQL (bytes.ts).
 * Then the instructions of Redis for a verify, counted by valgrind (redis-instructions.ts).
 * Exit code 2, without a verdict on the limits, if the load average was above 2 at the start. Otherwise exit code 1 if a
 * figure misses its limit (settings.ts), if the times of failed logins differ, or if the memory exceeds the assumption.
 * Shares are compared with the committed ones (docs/benchmarks.json).
 *
 * Arguments: the parts to run, all by default: hello verify profile refresh logout credentials scrypt flood
 * login-times memory stall bytes instructions.
 *
 * --json             one line of JSON with all figures
 * --save             writes docs/benchmarks.json and the table of docs/performance.md
 * --smoke            only shows that the bench runs, within a minute; checks no limits
 * --profile FOLDER   CPU profiles of both servers
 * --against DIST     the `dist` of another build, which is measured in turns with this one instead of the floor
 * --peers            compares with other products instead (peers/); takes --json, --save and --smoke
 */
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { availableParallelism } from 'node:os';
import { readFileSync } from 'node:fs';
import { loadBefore, MAX_LOAD, print, save } from '../table.ts';
import { measureBytes } from './bytes.ts';
import { changesBetween, hasFailed, makeDocument } from './document.ts';
import { measureFlood } from './flood.ts';
import { measureLoginTimes } from './login-times.ts';
import { measureMemory } from './memory.ts';
import { CONNECTIONS, YARDSTICKS } from './operations.ts';
import { benchPeers } from './peers/peers.ts';
import { benchText, committedFigures, figuresOf, FIGURES } from './report.ts';
import { amount, LATENCY_CORES, limit, type Amount } from './settings.ts';
import { measureInstructions } from './redis-instructions.ts';
import { measureSpeed, type SpeedReport } from './speed.ts';
import { measureStall } from './stall.ts';
import { makeWorld, type World } from './world.ts';

const PARTS = [...YARDSTICKS, 'flood', 'login-times', 'memory', 'stall', 'bytes', 'instructions'] as const;
const RULER = new URL('./ruler.js', import.meta.url).pathname;
const FLOOR = new URL('./floor.js', import.meta.url).pathname;
/** A round of the flood takes ten seconds, most of which the queue of logins needs to empty. */
const FLOOD_ROUNDS = 5;

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    json: { type: 'boolean', default: false },
    save: { type: 'boolean', default: false },
    smoke: { type: 'boolean', default: false },
    profile: { type: 'string' },
    against: { type: 'string' },
    peers: { type: 'boolean', default: false },
  },
});
const unknown = positionals.filter((name) => !PARTS.some((part) => part === name));
if (unknown.length > 0) throw new Error(`unknown part: ${unknown.join(', ')}. Parts: ${PARTS.join(', ')}`);
/** Whether shares are those that limits and committed figures are about. */
const isMeasured = !flags.smoke && flags.against === undefined;
if (flags.save && !(isMeasured && positionals.length === 0))
  throw new Error('--save needs all parts, the floor, and no --smoke');
if (flags.peers && positionals.length > 0) throw new Error('--peers has no parts');
const load = loadBefore(flags.save);
if (flags.save) requireNodeOfTheImage();
/** Beside other work, a miss says nothing about the build. */
const isQuiet = load <= MAX_LOAD;
const isJudged = isMeasured && isQuiet;

const wants = (part: (typeof PARTS)[number]) => positionals.length === 0 || positionals.includes(part);
const set = (name: Amount) => amount(name, flags.smoke);
const settings = {
  ...(flags.against !== undefined && { reference: 'the other build' }),
  connections: CONNECTIONS,
  rounds: set('BENCH_ROUNDS'),
  seconds: set('BENCH_SECONDS'),
};

// Ctrl-C also ends the servers. Then the load fails, and the usual cleanup runs.
process.once('SIGINT', () => undefined);

// A short queue empties sooner.
const world = await makeWorld(flags.smoke ? { HASH_QUEUE_TIMEOUT: '1' } : {}, set('BENCH_MANY_SESSIONS'));
try {
  process.exitCode = flags.peers ? await benchPeers(world, flags, load) : await benchParts();
} finally {
  await world.close();
}

/** @returns the exit code. */
async function benchParts(): Promise<number> {
  const document = makeDocument(
    {
      speed: await speedOf(world),
      flood: wants('flood') ? await floodOf(world) : null,
      logins: wants('login-times') ? await loginsOf(world) : null,
      memory: wants('memory') ? await memoryOf(world) : null,
      stall: wants('stall') ? measureStall({ fills: set('BENCH_STALL_FILLS') }) : null,
      bytes: wants('bytes') ? await bytesOf() : null,
      instructions: wants('instructions') ? await instructionsOf() : null,
    },
    { settings, isJudged },
  );
  const committed = isMeasured ? committedFigures() : undefined;
  const changes = committed ? changesBetween(document, committed) : null;
  await print(flags.json, { ...document, changes }, benchText(document, committed));
  if (flags.save) await save(figuresOf(document), { name: FIGURES, result: document });
  if (isMeasured && !isQuiet) {
    process.stderr.write(
      `no verdict: the load average was ${load.toFixed(1)} at the start, and limits hold up to ${MAX_LOAD}\n`,
    );
    return 2;
  }
  return hasFailed(document) ? 1 : 0;
}

async function speedOf(world: World): Promise<SpeedReport> {
  const yardsticks = YARDSTICKS.filter(wants);
  if (yardsticks.length === 0) return { operations: [], ruler: [], latencies: [], resident: {} };
  return measureSpeed(world, {
    yardsticks,
    rounds: settings.rounds,
    seconds: settings.seconds,
    hashSeconds: set('BENCH_HASH_SECONDS'),
    // On fewer cores, server and load wait for each other, and a p99 says how the kernel shares a core.
    latencySeconds: availableParallelism() < LATENCY_CORES ? 0 : set('BENCH_LATENCY_SECONDS'),
    floor: flags.against === undefined ? FLOOR : resolve(flags.against, 'src/server.js'),
    ruler: flags.against === undefined ? RULER : undefined,
    profile: flags.profile,
  });
}

function instructionsOf() {
  return measureInstructions({
    verifies: set('BENCH_INSTRUCTIONS_VERIFIES'),
    against: flags.against && resolve(flags.against),
  });
}

/** @throws Error unless this is the major version of Node that the image runs. */
function requireNodeOfTheImage(): void {
  const file = readFileSync(new URL('../../../Dockerfile', import.meta.url), 'utf8');
  const [, major] = /\bnode:(\d+)/.exec(file) ?? [];
  if (process.version.split('.')[0] !== `v${major}`)
    throw new Error(`--save: the image runs Node ${major}, and this is ${process.version}`);
}

function floodOf(world: World) {
  return measureFlood(world, {
    rounds: flags.smoke ? 1 : FLOOD_ROUNDS,
    seconds: set('BENCH_FLOOD_SECONDS'),
  });
}

function loginsOf(world: World) {
  return measureLoginTimes(world, {
    rounds: set('BENCH_LOGIN_ROUNDS'),
    minPower: flags.smoke ? 0 : limit('BENCH_MIN_POWER'),
  });
}

function memoryOf(world: World) {
  return measureMemory(world, {
    seconds: set('BENCH_MEMORY_SECONDS'),
    tokens: set('BENCH_MEMORY_TOKENS'),
    cases: set('BENCH_MEMORY_CASES'),
  });
}

function bytesOf() {
  return measureBytes({ sessions: set('BENCH_BYTES_SESSIONS'), refreshes: set('BENCH_BYTES_REFRESHES') });
}
