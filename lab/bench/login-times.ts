import { makeScryptHasher } from '../../src/infra/crypto/scrypt-hasher.ts';
import { sql } from '../../test/support/sql.ts';
import { startServer } from '../../test/support/measured-server.ts';
import { powerOf, signedRank } from './signed-rank.ts';
import { median } from './statistics.ts';
import type { World } from './world.ts';

/** The older hash cost; the server uses a production's 17/8/1. */
const OLD_COST = { logN: 14, r: 8, p: 5 };
const PASSWORD = 'difference engine';
const WARM_UP_ROUNDS = 2;
/** After so many rounds, and each time again, the power decides whether more are needed. */
const STEP = 30;
/** The difference that the test has to detect. */
const SHIFT = 0.05;
/** Significance level: a difference counts if chance makes one as large less often than this. */
const ALPHA = 0.001;

/** Why a login fails; `planted` is an unknown name whose answer is delayed by 5% of its time. */
const KINDS = ['unknown', 'known', 'disabled', 'planted'] as const;
type Kind = (typeof KINDS)[number];
type Times = Record<Kind, number>;

export interface LoginTimesReport {
  /** Milliseconds, round by round. */
  rounds: Times[];
  alpha: number;
  shift: number;
  /** Each kind against the unknown name: the median of the rounds' ratios, less 1, and the p of the test. */
  comparisons: { kind: Exclude<Kind, 'unknown'>; difference: number; p: number }[];
  /** How often this run, with its noise, would detect a difference of `shift`. */
  power: number;
  minPower: number;
  /** The time of a failed login reveals why it failed. */
  tells: boolean;
  /** This run could not have detected a difference of `shift`. */
  isBlind: boolean;
}

/**
 * Tests whether the time of a failed login reveals why it failed, while accounts have hashes of an old cost. Every round
 * tries each kind once, in random order, with a new name. On a quiet machine, fewer than `rounds` are enough.
 * @throws Error if an answer is not 401.
 */
export async function measureLoginTimes(
  world: World,
  { rounds: count, minPower }: { rounds: number; minPower: number },
): Promise<LoginTimesReport> {
  const warmUp = Math.min(WARM_UP_ROUNDS, count - 1);
  const accounts = await accountsWithOldHash(world, 2 * (count + warmUp));
  const server = await startServer({
    script: new URL('../../src/server.js', import.meta.url).pathname,
    nodeOptions: [],
    env: { ...world.env, RATE_LIMIT_LOGIN: '0' },
    logFile: `${world.folder}/login-times.log`,
  });
  try {
    const rounds: Times[] = [];
    for (let i = 0; i < count + warmUp; i++) {
      const { known = '', disabled = '' } = accounts[i] ?? {};
      const tries: Record<Kind, () => Promise<number>> = {
        unknown: () => failedLogin(server.url, `unknown-${i}`),
        known: () => failedLogin(server.url, known),
        disabled: () => failedLogin(server.url, disabled, PASSWORD),
        planted: () => failedLogin(server.url, `no-one-${i}`, undefined, SHIFT),
      };
      const times: Partial<Times> = {};
      for (const kind of shuffled(KINDS)) times[kind] = await tries[kind]();
      if (i < warmUp) continue;
      rounds.push(times as Times);
      // The power depends on the noise alone, so looking at it often does not make a difference more likely.
      if (rounds.length % STEP === 0 && !judge(rounds, minPower).isBlind) break;
    }
    return judge(rounds, minPower);
  } finally {
    await server.stop();
  }
}

function judge(rounds: Times[], minPower: number): LoginTimesReport {
  const differences = (kind: Kind) => rounds.map((times) => Math.log(times[kind] / times.unknown));
  const comparisons = (['known', 'disabled', 'planted'] as const).map((kind) => ({
    kind,
    difference: Math.exp(median(differences(kind))) - 1,
    p: signedRank(differences(kind)),
  }));
  const isFound = (kind: Kind) => comparisons.some((each) => each.kind === kind && each.p < ALPHA);
  const power = Math.min(
    ...(['known', 'disabled'] as const).map((kind) =>
      powerOf(differences(kind), { shift: Math.log(1 + SHIFT), alpha: ALPHA }),
    ),
  );
  return {
    rounds,
    alpha: ALPHA,
    shift: SHIFT,
    comparisons,
    power,
    minPower,
    tells: isFound('known') || isFound('disabled'),
    isBlind: minPower > 0 && (power < minPower || !isFound('planted')),
  };
}

/** Creates accounts whose hash has the old cost; half of them are disabled. */
async function accountsWithOldHash(world: World, count: number) {
  const names = (await world.signUpMany(count)).map(({ user }) => user.username);
  const databaseUrl = world.env.DATABASE_URL ?? '';
  const hash = Buffer.from(await makeScryptHasher(OLD_COST).hash(PASSWORD));
  await sql(databaseUrl, 'UPDATE users SET password_hash = $1 WHERE username = ANY($2)', [hash, names]);
  const pairs = Array.from({ length: count / 2 }, (_, i) => ({
    known: names[2 * i] ?? '',
    disabled: names[2 * i + 1] ?? '',
  }));
  const disabled = pairs.map((pair) => pair.disabled);
  await sql(databaseUrl, 'UPDATE users SET disabled_at = now() WHERE username = ANY($1)', [disabled]);
  return pairs;
}

/** @param held the delay of the answer, as a share of its time. @returns milliseconds. */
async function failedLogin(
  origin: string,
  username: string,
  password = 'a wrong one',
  held = 0,
): Promise<number> {
  const start = performance.now();
  const response = await fetch(`${origin}/api/auth`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ username, password }),
  });
  await response.arrayBuffer();
  if (response.status !== 401) throw new Error(`a failed login was answered ${response.status}`);
  const end = performance.now() + held * (performance.now() - start);
  while (performance.now() < end);
  return performance.now() - start;
}

function shuffled<Item>(items: readonly Item[]): Item[] {
  return items
    .map((item) => ({ item, place: Math.random() }))
    .sort((a, b) => a.place - b.place)
    .map(({ item }) => item);
}
