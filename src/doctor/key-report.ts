import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError, DATABASE_SETTINGS, loadSettings } from '../config/config.ts';
import { readVariable, type Environment } from '../config/environment.ts';
import { describeKeys } from '../domain/access-tokens/key-lifecycle.ts';
import { readKeyFiles } from '../infra/crypto/key-files.ts';
import { KeyError } from '../infra/crypto/keys.ts';
import { makePostgres } from '../infra/postgres/client.ts';
import { countLongLived, readKeyRecords } from '../infra/postgres/key-records.ts';
import type { JudgedKey } from './key-lifecycle.ts';

export interface KeysReport {
  directory: string;
  /** The time of the report, by the database's clock. */
  now: number;
  /** The highest file name first. */
  keys: JudgedKey[];
}

/** The settings of keys and token lifetimes; ignores errors in other variables. */
export function keyConfig(env: Environment) {
  const config = loadSettings(
    env,
    ...DATABASE_SETTINGS,
    'DATA_DIR',
    'KEY_PUBLISH_LEAD',
    'ACCESS_TOKEN_TTL',
    'SERVICE_TOKEN_TTL',
  );
  const problems: string[] = [];
  const directory = readVariable(env, 'SIGNING_KEYS_DIR', problems) ?? join(config.DATA_DIR, 'keys');
  if (problems.length > 0) throw new ConfigError(problems);
  return { ...config, directory };
}

/**
 * Every key of SIGNING_KEYS_DIR with its state.
 * @param url of the database, where the replicas record the state of their keys.
 * @throws AuthError `unavailable`, KeyError, ConfigError
 */
export async function reportKeys(env: Environment, url: string): Promise<KeysReport> {
  const config = keyConfig(env);
  if (!existsSync(config.directory)) throw new KeyError(`${config.directory} does not exist`);
  const files = readKeyFiles(config.directory);
  const postgres = makePostgres({
    url,
    ca: config.DATABASE_CA,
    pool: 1,
    timeout: config.DATABASE_TIMEOUT,
    observe: null,
  });
  try {
    const { now, records } = await readKeyRecords(postgres.prisma);
    const lives = describeKeys([...new Set(files.map(({ key }) => key.kid))], {
      records,
      now,
      lead: config.KEY_PUBLISH_LEAD,
      // An exchanged token ends with the access token that it was made from, at the latest.
      longestTtl: Math.max(config.ACCESS_TOKEN_TTL, config.SERVICE_TOKEN_TTL),
      longLived: await countLongLived(postgres.prisma),
    });
    const keys = lives.flatMap((life) => {
      const [file, ...others] = files.filter(({ key }) => key.kid === life.kid);
      if (!file) return [];
      const { name, key } = file;
      const names = [name, ...others.map((other) => other.name)];
      return [{ ...life, file: name, files: names, algorithm: key.algorithm, createdAt: key.createdAt }];
    });
    return { directory: config.directory, now, keys };
  } finally {
    await postgres.close();
  }
}
