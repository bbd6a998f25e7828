import { readFileSync, writeFileSync } from 'node:fs';
import { COSTS, type ChangeCost, type Costs } from '../../src/domain/sizing/costs.ts';
import { formatted } from '../../test/support/formatted.ts';
import { committedFigures as committedBench } from '../bench/report.ts';
import type { Sample } from '../bench/statistics.ts';
import type { Change, ChangeFigure } from './changes.ts';
import type { ReadersFigure } from './readers.ts';
import { committedFigures } from './scale-document.ts';

const SOURCE = new URL('../../../src/domain/sizing/costs.ts', import.meta.url).pathname;
const TABLE = /(export const COSTS: Costs = )\{.*?\n\};/s;

/**
 * The costs of the plan, from docs/scaling.json and docs/benchmarks.json: medians with one replica and 64 connections.
 * @throws Error if a figure has not been measured.
 */
export function measuredCosts(): Costs {
  const { replicas, sessions, cold, new: fresh, changes, readers } = committedFigures();
  const bytes = committedBench()?.bytes;
  const many = sessions?.figures.find((each) => each.sessions === 100_000);
  const all = [replicas, many, cold, fresh].flatMap((part) => part?.figures ?? []);
  const of = (operation: string, held = 1000) => {
    const found = all.find(
      (each) => each.operation === operation && each.sessions === held && each.replicas === 1,
    );
    if (!found) throw new Error(`not measured yet: ${operation} with ${held} sessions`);
    return found;
  };
  if (!replicas || !many || !bytes) throw new Error('not measured yet: replicas, sessions or bytes');
  // In figures without first verifies, 100,000 sessions are more than a replica remembers.
  const first = fresh ? of('first verify') : of('verify', 100_000);
  const refresh = of('refresh', 100_000);
  const [coldRefresh, login] = [of('cold refresh'), of('login')];
  const micros = ({ median }: Sample) => Number(median.toPrecision(3));
  const cores = ({ median }: Sample) => Number(median.toFixed(4));
  const users = many.sessions / 2;
  return {
    replica: {
      verifyKnown: micros(of('verify').micros),
      verifyNew: micros(first.micros),
      refresh: micros(refresh.micros),
      coldRefresh: micros(coldRefresh.micros),
      login: micros(login.micros),
    },
    idle: {
      replica: cores(replicas.idle.replica),
      redis: cores(replicas.idle.redis),
      postgres: cores(replicas.idle.postgres),
    },
    redis: {
      // The dearer one: replicas that check no signature send more tokens in a call.
      verify: micros(first.redisMicros),
      refresh: micros(refresh.redisMicros),
      coldRefresh: micros(coldRefresh.redisMicros),
      login: micros(login.redisMicros),
    },
    postgres: {
      refresh: micros(refresh.postgresMicros),
      coldRefresh: micros(coldRefresh.postgresMicros),
      login: micros(login.postgresMicros),
    },
    changes: changes
      ? {
          revocation: changeCost('revocation', changes.figures),
          user: changeCost('changed user', changes.figures),
        }
      : null,
    reader: readers ? readerCost(readers.figures) : null,
    bytes: {
      redisSession: Math.round(bytes.redis.used),
      // Beside its key, an entry of the tables of keys, as large as a session's.
      redisUser: Math.round(bytes.redis.user + bytes.redis.used - bytes.redis.session),
      // Not measured here (costs.ts).
      redisRevoked: COSTS.bytes.redisRevoked,
      token: Math.round(bytes.postgres.refreshed),
      user: Math.round(many.bytes.users / users),
      knownDevice: Math.round(many.bytes.devices / users),
    },
  };
}

/** The straight line through the fewest and the most replicas. */
function changeCost(change: Change, all: readonly ChangeFigure[]): ChangeCost {
  const figures = all.filter((each) => each.change === change);
  const [fewest, most] = [figures[0], figures.at(-1)];
  if (!fewest || !most || fewest.replicas === most.replicas)
    throw new Error(`not measured yet: ${change} with several numbers of replicas`);
  const lineOf = (name: 'micros' | 'redisMicros' | 'postgresMicros') => {
    const slope = (most[name].median - fewest[name].median) / (most.replicas - fewest.replicas);
    // Less than nothing is noise.
    const eachReplica = Math.max(0, slope);
    const once = Math.max(0, fewest[name].median - eachReplica * fewest.replicas);
    return { once: Math.round(once), eachReplica: Number(eachReplica.toFixed(1)) };
  };
  return { replica: lineOf('micros'), redis: lineOf('redisMicros'), postgres: lineOf('postgresMicros') };
}

/** With the most readers, where what the replica does for all of them is shared. */
function readerCost(figures: readonly ReadersFigure[]): Costs['reader'] {
  const most = figures.at(-1);
  if (!most) throw new Error('not measured yet: readers');
  return { quiet: Number(most.quiet.median.toPrecision(2)), busy: Number(most.busy.median.toPrecision(2)) };
}

/** Writes the table of src/domain/sizing/costs.ts. */
export async function writeCosts(costs: Costs): Promise<void> {
  const source = readFileSync(SOURCE, 'utf8');
  if (!TABLE.test(source)) throw new Error(`${SOURCE} has no table of costs`);
  const changed = source.replace(TABLE, `$1${JSON.stringify(costs)};`);
  writeFileSync(SOURCE, await formatted(SOURCE, changed));
}
