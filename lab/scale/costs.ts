import { readFileSync, writeFileSync } from 'node:fs';
import { COSTS, type Costs } from '../../src/domain/sizing/costs.ts';
import { formatted } from '../../test/support/formatted.ts';
import { committedFigures as committedBench } from '../bench/report.ts';
import type { Sample } from '../bench/statistics.ts';
import { committedFigures } from './scale-document.ts';

const SOURCE = new URL('../../../src/domain/sizing/costs.ts', import.meta.url).pathname;
const TABLE = /(export const COSTS: Costs = )\{.*?\n\};/s;

/**
 * The costs of the plan, from docs/scaling.json and docs/benchmarks.json: medians with one replica and 64 connections.
 * @throws Error if a figure has not been measured.
 */
export function measuredCosts(): Costs {
  const { replicas, sessions, cold } = committedFigures();
  const bytes = committedBench()?.bytes;
  // With 100,000 sessions, each verify checks a signature.
  const many = sessions?.figures.find((each) => each.sessions === 100_000);
  const all = [...(replicas?.figures ?? []), ...(many?.figures ?? []), ...(cold?.figures ?? [])];
  const of = (operation: string, held = 1000) => {
    const found = all.find(
      (each) => each.operation === operation && each.sessions === held && each.replicas === 1,
    );
    if (!found) throw new Error(`not measured yet: ${operation} with ${held} sessions`);
    return found;
  };
  if (!replicas || !many || !bytes) throw new Error('not measured yet: replicas, sessions or bytes');
  const [verify, refresh] = [of('verify', 100_000), of('refresh', 100_000)];
  const [coldRefresh, login] = [of('cold refresh'), of('login')];
  const micros = ({ median }: Sample) => Number(median.toPrecision(3));
  const cores = ({ median }: Sample) => Number(median.toFixed(4));
  const users = many.sessions / 2;
  return {
    replica: {
      verifyKnown: micros(of('verify').micros),
      verifyNew: micros(verify.micros),
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
      verify: micros(verify.redisMicros),
      refresh: micros(refresh.redisMicros),
      coldRefresh: micros(coldRefresh.redisMicros),
      login: micros(login.redisMicros),
    },
    postgres: {
      refresh: micros(refresh.postgresMicros),
      coldRefresh: micros(coldRefresh.postgresMicros),
      login: micros(login.postgresMicros),
    },
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

/** Writes the table of src/domain/sizing/costs.ts. */
export async function writeCosts(costs: Costs): Promise<void> {
  const source = readFileSync(SOURCE, 'utf8');
  if (!TABLE.test(source)) throw new Error(`${SOURCE} has no table of costs`);
  const changed = source.replace(TABLE, `$1${JSON.stringify(costs)};`);
  writeFileSync(SOURCE, await formatted(SOURCE, changed));
}
