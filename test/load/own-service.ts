import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { openDatabase } from '../../src/composition/open-database.ts';
import { openKeyRing } from '../../src/composition/signing-keys.ts';
import { loadConfig, type Config } from '../../src/config/config.ts';
import { makePostgres } from '../../src/infra/postgres/client.ts';
import { makeScryptHasher } from '../../src/infra/crypto/scrypt-hasher.ts';
import { systemClock } from '../../src/runtime/system-clock.ts';
import { startServer } from '../support/measured-server.ts';
import type { OwnService } from '../../packages/load/src/load-test.ts';
import type { OpenedAccount } from '../../packages/load/src/prepare.ts';
import { bareEnvironment } from '../support/environment.ts';
import { faultProxy } from '../support/fault-proxy.ts';
import { silentLogger } from '../support/silent-log.ts';
import { mintSessions } from './mint.ts';
import { seedUsers } from './seed.ts';
import { PASSWORD, seededAccount } from './seeded-accounts.ts';

const SERVER = new URL('../../src/server.js', import.meta.url).pathname;

/** All devices share one address, so limits by address would measure themselves. */
const WITHOUT_ADDRESS_LIMITS = {
  RATE_LIMIT_LOGIN: '0',
  RATE_LIMIT_SIGNUP: '0',
  RATE_LIMIT_SIGNUP_NETWORK: '0',
  RATE_LIMIT_LLT: '0',
  RATE_LIMIT_LLT_NETWORK: '0',
  RATE_LIMIT_PROFILE: '0',
  RATE_LIMIT_NETWORK: '0',
};

/**
 * Starts the service on the embedded default, with embedded PostgreSQL, in-process session store and generated keys, in a
 * temporary folder, with these users. `stop` removes the folder.
 * @param say gets a line for each step.
 */
export async function startOwnService(
  { users, sessions }: { users: number; sessions: number },
  say: (line: string) => void,
): Promise<OwnService> {
  const closers: (() => unknown)[] = [];
  const scope = { teardown: (closer: () => unknown) => closers.unshift(closer) } as unknown as Test;
  const stop = async () => {
    for (const closer of closers.splice(0)) await closer();
  };
  try {
    const folder = mkdtempSync(join(tmpdir(), 'latchkey-load-'));
    scope.teardown(() => {
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    });
    say('starting the embedded PostgreSQL');
    const config = loadConfig({ DATA_DIR: folder });
    const embedded = await openDatabase(config, silentLogger, () => undefined);
    scope.teardown(() => embedded.stop());
    say(`adding ${users} users and ${sessions} sessions`);
    const opened = await fill(config, embedded.url, { users, sessions });
    const database = await faultProxy(scope, embedded.url);
    say('starting the service');
    const server = await startServer({
      script: SERVER,
      nodeOptions: [],
      env: bareEnvironment({
        DATABASE_URL: database.url,
        DATA_DIR: folder,
        PORT: '0',
        OPS_PORT: '0',
        DRAIN_DELAY: '0',
        ...WITHOUT_ADDRESS_LIMITS,
      }),
      logFile: join(folder, 'service.log'),
    });
    scope.teardown(() => server.stop());
    const setOutage = (isOut: boolean) => {
      database.set(isOut ? 'refuse' : 'pass');
    };
    return { url: server.url, users: opened, setOutage, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function fill(
  config: Config,
  url: string,
  { users, sessions }: { users: number; sessions: number },
): Promise<OpenedAccount[]> {
  const postgres = makePostgres({ url, pool: 1, timeout: 60_000, observe: null });
  try {
    const hash = await hashOf(config);
    await seedUsers(postgres.pool, { users, hash, progress: () => undefined });
    // The keys do not change meanwhile.
    const tasks = { every: () => undefined };
    const keyRing = openKeyRing(config, postgres.prisma, tasks, silentLogger);
    await keyRing.settle();
    const pairs = await mintSessions(sessions, { pool: postgres.pool, keyRing, config, clock: systemClock });
    return Array.from({ length: users }, (_, i) => ({ account: seededAccount(i), pair: pairs[i] }));
  } finally {
    await postgres.close();
  }
}

/** The password of all seeded users, at the service's cost. */
export function hashOf({ SCRYPT_LOG_N, SCRYPT_R, SCRYPT_P }: Config): Promise<Uint8Array> {
  return makeScryptHasher({ logN: SCRYPT_LOG_N, r: SCRYPT_R, p: SCRYPT_P }).hash(PASSWORD);
}
