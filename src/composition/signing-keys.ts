import type { FastifyBaseLogger } from 'fastify';
import { reasonOf } from '../domain/errors.ts';
import type { Config } from '../config/config.ts';
import type { SecretBox } from '../domain/factors/ports.ts';
import { makeSecretBox, parseFactorKeys } from '../infra/crypto/factor-keys.ts';
import {
  factorKeysOf,
  generatedFactorKeys,
  generatedRefreshSecret,
  generatedSigningKeysDir,
} from '../infra/crypto/generated-keys.ts';
import { makeKeyRing, type SettledKeyRing } from '../infra/crypto/key-ring.ts';
import { KeyError } from '../infra/crypto/keys.ts';
import { makeAnswering } from '../infra/installation/answering.ts';
import { makeKeyRegistry } from '../infra/postgres/key-registry.ts';
import type { PrismaClient } from '../generated/prisma/client.ts';
import type { BackgroundTasks } from '../runtime/background-tasks.ts';
import { systemClock } from '../runtime/system-clock.ts';
import { StartError } from '../runtime/start-error.ts';

/** How often the key files are read, in milliseconds. */
const KEY_INTERVAL = 5000;

/** Registers no key yet. @throws StartError if the keys, or the folder for generated keys, cannot be used */
export function openKeyRing(
  config: Config,
  prisma: PrismaClient,
  tasks: Pick<BackgroundTasks, 'every'>,
  logger: FastifyBaseLogger,
): SettledKeyRing {
  const { DATA_DIR: dataDir, readRefreshSecrets } = config;
  const generated = readRefreshSecrets ? null : inDataDir(dataDir, generatedRefreshSecret);
  const keyRing = orStartError(() =>
    makeKeyRing({
      registry: makeKeyRegistry(prisma, config.KEY_PUBLISH_LEAD, config.DATABASE_URL === undefined),
      answering: makeAnswering(() => systemClock.monotonic()),
      signingKeysDir: config.SIGNING_KEYS_DIR ?? inDataDir(dataDir, generatedSigningKeysDir),
      readRefreshSecrets: readRefreshSecrets ?? (() => generated ?? ''),
      onError: (error) => {
        logger.error({ reason: reasonOf(error) }, 'cannot load the keys; the current keys stay in use');
      },
      onRegistry: (error) => {
        if (error)
          logger.warn(
            { reason: reasonOf(error) },
            'cannot ask the database which key may sign; the current key goes on signing',
          );
        else logger.info('the database is reachable again: it decides which key signs');
      },
    }),
  );
  tasks.every(
    KEY_INTERVAL,
    null,
    () => keyRing.settle(),
    // A missing key may arrive.
    async () => void (await keyRing.reload()),
  );
  return keyRing;
}

/** @throws StartError */
export function openSecretBox(config: Config): SecretBox {
  const keys = factorKeysOf(config, (dataDir) => inDataDir(dataDir, generatedFactorKeys));
  return makeSecretBox(keys === null ? [] : orStartError(() => parseFactorKeys(keys)));
}

/** @throws StartError */
function orStartError<Result>(make: () => Result): Result {
  try {
    return make();
  } catch (error) {
    if (error instanceof KeyError) throw new StartError(`the keys cannot be used: ${error.message}`);
    throw error;
  }
}

/** @throws StartError if the data folder cannot be used */
function inDataDir(dataDir: string, generate: (dataDir: string) => string): string {
  try {
    return generate(dataDir);
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    throw new StartError(
      `cannot keep generated keys in ${dataDir} (${code}): set SIGNING_KEYS_DIR, REFRESH_TOKEN_SECRET and FACTOR_KEYS, or another DATA_DIR`,
    );
  }
}
