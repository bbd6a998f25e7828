import type { FastifyBaseLogger } from 'fastify';
import { reasonOf } from './background.ts';
import type { Config } from './config.ts';
import type { KeyRing } from './domain/access-tokens/ports.ts';
import { makeClientHash, type ClientHash } from './infra/crypto/client-hash.ts';
import { generatedRefreshSecret, generatedSigningKeysDir } from './infra/crypto/generated-keys.ts';
import { makeKeyRing } from './infra/crypto/key-ring.ts';
import { KeyError } from './infra/crypto/keys.ts';
import { makeKeyRegistry } from './infra/postgres/key-registry.ts';
import type { PrismaClient } from './generated/prisma/client.ts';
import { StartError } from './start-error.ts';
import { within } from './within.ts';

/** How often the keys are looked at, in milliseconds. */
const KEY_INTERVAL = 5000;

/** A start waits that long to hear which key signs, in milliseconds; without an answer it is the oldest. */
const KEY_PATIENCE = 1000;

/** Its key is taken from the newest refresh secret: all replicas share that, and it changes while we run. */
export function followClientHash(keyRing: KeyRing): ClientHash {
  let hash = makeClientHash(firstOf(keyRing.current().refresh).secret);
  keyRing.onChange((keys) => {
    hash = makeClientHash(firstOf(keys.refresh).secret);
    return Promise.resolve();
  });
  return (address, userAgent) => hash(address, userAgent);
}

/** @throws StartError where the keys, or the folder for generated ones, cannot be used */
export async function openKeyRing(config: Config, prisma: PrismaClient, logger: FastifyBaseLogger) {
  const { DATA_DIR: dataDir, readRefreshSecrets } = config;
  const generated = readRefreshSecrets ? null : inDataDir(dataDir, generatedRefreshSecret);
  const keyRing = orStartError(() =>
    makeKeyRing({
      registry: makeKeyRegistry(prisma, config.KEY_PUBLISH_LEAD),
      signingKeysDir: config.SIGNING_KEYS_DIR ?? inDataDir(dataDir, generatedSigningKeysDir),
      readRefreshSecrets: readRefreshSecrets ?? (() => generated ?? ''),
      interval: KEY_INTERVAL,
      onError: (error) => {
        logger.error({ reason: reasonOf(error) }, 'the keys cannot be used; those in use stay');
      },
      onRegistry: (error) => {
        if (error) logger.warn({ reason: reasonOf(error) }, 'which key may sign cannot be asked; it stays');
        else logger.info('which key may sign can be asked again');
      },
    }),
  );
  await within(keyRing.settle(), KEY_PATIENCE).catch(() => undefined);
  return keyRing;
}

/** @throws StartError */
function orStartError<Result>(make: () => Result): Result {
  try {
    return make();
  } catch (error) {
    if (error instanceof KeyError) throw new StartError(`the signing keys cannot be used: ${error.message}`);
    throw error;
  }
}

/** @throws StartError where the data folder cannot be used */
function inDataDir(dataDir: string, generate: (dataDir: string) => string): string {
  try {
    return generate(dataDir);
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    throw new StartError(
      `cannot keep generated keys in ${dataDir} (${code}): give SIGNING_KEYS_DIR and REFRESH_TOKEN_SECRET, or another DATA_DIR`,
    );
  }
}

function firstOf<Item>(items: readonly Item[]): Item {
  const [first] = items;
  if (first === undefined) throw new Error('the key ring is empty');
  return first;
}
