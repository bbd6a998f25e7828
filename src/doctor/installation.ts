import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../config/config.ts';
import type { Objection } from '../domain/standing.ts';
import { existingRefreshSecret } from '../infra/crypto/generated-keys.ts';
import { readKeyFiles } from '../infra/crypto/key-files.ts';
import { parseRefreshSecrets } from '../infra/crypto/keys.ts';
import {
  HARD_FACTS,
  SOFT_FACTS,
  describeDifference,
  differencesOf,
  objectionTo,
  objectionToMissing,
  type FactName,
  type Facts,
} from '../infra/installation/facts.ts';
import { makeInstallationRecord } from '../infra/installation/record.ts';
import { makeSeedMark, SEEDED } from '../infra/installation/seed-mark.ts';
import { keysInUse } from '../infra/postgres/key-registry.ts';
import type { Postgres } from '../infra/postgres/client.ts';
import { fail, ok, warn, type Finding } from './finding.ts';

/**
 * Compares this replica's settings and keys with what the replicas have recorded, also before an upgrade from 1.0.0,
 * which records only the keys for access tokens. Writes nothing.
 */
export async function checkInstallation(
  config: Config,
  { prisma, pool }: Pick<Postgres, 'prisma' | 'pool'>,
): Promise<Finding[]> {
  const tables = `SELECT to_regclass('signing_keys') IS NOT NULL AS keys, to_regclass('installation') IS NOT NULL AS facts,
    to_regclass('seed_mark') IS NOT NULL AS mark`;
  const [has] = (await pool.query<{ keys: boolean; facts: boolean; mark: boolean }>(tables)).rows;
  const facts = has?.facts ? await makeInstallationRecord(prisma).read() : new Map();
  const inUse = has?.keys ? await keysInUse(prisma, false, has.facts) : [];
  const held = heldKids(config);
  const isSeeded = has?.mark === true && (await makeSeedMark(prisma).isSet());
  return [
    judgeSeed(config, isSeeded),
    ...judgeSettings(config, facts),
    judge(
      'used keys',
      objectionToMissing(inUse.filter(({ kid }) => !held.includes(kid))),
      inUse.length === 0 ? 'no replica has signed lately' : `this replica has all ${inUse.length}`,
    ),
  ];
}

/** @param isSeeded whether a seed has filled the database. */
function judgeSeed({ production }: Pick<Config, 'production'>, isSeeded: boolean): Finding {
  if (!isSeeded) return ok('seed', 'no SEED_FILE has filled this database');
  if (production) return judge('seed', SEEDED, '');
  return ok('seed', 'SEED_FILE has filled this database, which production refuses for ever');
}

const CHECK = 'settings of the installation';

/** @param config of this replica. */
export function judgeSettings(config: Pick<Config, FactName>, facts: Facts): Finding[] {
  const differences = differencesOf(config, facts);
  const isRecorded = HARD_FACTS.every((name) => facts.has(name));
  const values = HARD_FACTS.map((name) => `${name} ${config[name]}`).join(', ');
  const found = isRecorded
    ? `${values}: as recorded`
    : `${values}: not recorded yet, so the first replica to start records its own. Each replica has to show these`;
  const soft = differences.filter(({ name }) => SOFT_FACTS.some((each) => each === name));
  return [
    judge(CHECK, objectionTo(differences), found),
    ...soft.map((difference) =>
      warn(
        CHECK,
        `${difference.name}: ${describeDifference(difference)}`,
        'finish the rollout, or give every replica one value',
      ),
    ),
  ];
}

function judge(check: string, objection: Objection | null, found: string): Finding {
  if (!objection) return ok(check, found);
  const { about, problem, action } = objection;
  return fail(check, `${about}: ${problem}; a replica with it does not serve`, action);
}

function heldKids(config: Config): string[] {
  const directory = config.SIGNING_KEYS_DIR ?? join(config.DATA_DIR, 'keys');
  const secrets = config.readRefreshSecrets?.() ?? existingRefreshSecret(config.DATA_DIR);
  return [
    ...(existsSync(directory) ? readKeyFiles(directory).map(({ key }) => key.kid) : []),
    ...(secrets === null ? [] : parseRefreshSecrets(secrets).map(({ kid }) => kid)),
  ];
}
