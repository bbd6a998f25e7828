import { withDatabase } from '../../src/cli/database.ts';
import { loadConfig, NO_HASHES } from '../../src/config/config.ts';
import { readVariable, type Environment } from '../../src/config/environment.ts';
import { makePostgres } from '../../src/infra/postgres/client.ts';
import { parseWords, readUsers } from '../../packages/load/src/arguments.ts';
import type { LiveView } from '../../packages/load/src/live-view.ts';
import { LoadError } from '../../packages/load/src/load-error.ts';
import { hashOf } from './own-service.ts';
import { seedUsers } from './seed.ts';
import { PASSWORD } from './seeded-accounts.ts';
import { isLoopback } from '../../packages/load/src/target.ts';

/** Milliseconds; a batch of rows may wait for a checkpoint. */
const TIMEOUT = 60_000;

export interface SeedArguments {
  users: number;
  /** The database may be on another machine. */
  isOwned: boolean;
}

/** @throws LoadError with what is wrong */
export function readSeedArguments(words: readonly string[]): SeedArguments {
  const { users, 'yes-i-own-this': isOwned, ...others } = parseWords(words).values;
  if (users === undefined) throw new LoadError('seed: say how many, with --users N');
  if (others.url !== undefined)
    throw new LoadError('seed fills the database of DATABASE_URL, not a service: leave out --url');
  return { users: readUsers(users, 0), isOwned };
}

/**
 * Fills the service's database: that of DATABASE_URL, or the embedded one in DATA_DIR.
 * @throws LoadError in production, if the database is on another machine that is not the caller's, and if it holds other
 * users
 */
export async function runSeed(
  { users, isOwned }: SeedArguments,
  env: Environment,
  view: Pick<LiveView, 'say' | 'progress'>,
): Promise<void> {
  if (readVariable(env, 'NODE_ENV') === 'production')
    throw new LoadError('NODE_ENV is production: users with a public password do not belong there');
  const database = readVariable(env, 'DATABASE_URL') ?? '';
  // The configuration refuses a malformed one.
  const hostname = URL.canParse(database) ? new URL(database).hostname : '';
  if (hostname !== '' && !isLoopback(hostname) && !isOwned)
    throw new LoadError(
      `${hostname} is not this machine. If its database is yours and for tests, add --yes-i-own-this`,
    );
  const { SCRYPT_LOG_N, SCRYPT_R, SCRYPT_P, DATA_DIR } = env;
  const hash = await hashOf(loadConfig({ SCRYPT_LOG_N, SCRYPT_R, SCRYPT_P, DATA_DIR }, NO_HASHES));
  const since = performance.now();
  const added = await withDatabase(env, async ({ url, ca }) => {
    const postgres = makePostgres({ url, ca, pool: 1, timeout: TIMEOUT, observe: null });
    try {
      return await seedUsers(postgres.pool, {
        users,
        hash,
        progress: (done) => {
          view.progress('seeding', done, users);
        },
      });
    } finally {
      await postgres.close();
    }
  });
  const seconds = ((performance.now() - since) / 1000).toFixed(1);
  view.say(
    `added ${added} users in ${seconds} s: load-0 to load-${users - 1}, all with the password "${PASSWORD}"`,
  );
}
