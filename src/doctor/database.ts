import type { Config } from '../config.ts';
import { makePostgres, type Postgres } from '../infra/postgres/client.ts';
import { inspectPostgres, postgresNow, type PostgresFacts } from '../infra/postgres/inspect.ts';
import { reasonOf } from '../infra/postgres/migration-error.ts';
import { missingMigrations, unfinishedMigrations } from '../infra/postgres/schema-version.ts';
import { compareClocks, judgeClock } from './clock.ts';
import { fail, ok, warn, type Finding } from './finding.ts';

const MIN_VERSION = 14;

/** Connects, and looks. Writes nothing. */
export async function checkDatabase(config: Config): Promise<Finding[]> {
  const { DATABASE_URL: url, DATABASE_POOL: pool, DATABASE_TIMEOUT: timeout } = config;
  if (url === undefined) {
    const found = `the embedded one, in ${config.DATA_DIR}; it runs while the service does, and was not looked at`;
    return [warn('database', found, 'set DATABASE_URL where more than one process or machine is to serve')];
  }
  const postgres = makePostgres({ url, pool: 1, timeout });
  try {
    const facts = await inspectPostgres(postgres.pool);
    const clock = await compareClocks(() => postgresNow(postgres.pool));
    return [
      ...judgeServer(facts, pool),
      judgeClock('the database', clock),
      ...(await checkMigrations(postgres)),
    ];
  } catch (error) {
    const todo = 'see DATABASE_URL, the network between, and whether the server runs';
    return [fail('database', `cannot be asked: ${reasonOf(error)}`, todo)];
  } finally {
    await postgres.close();
  }
}

/** @param pool DATABASE_POOL. */
export function judgeServer(facts: PostgresFacts, pool: number): Finding[] {
  return [judgeVersion(facts), judgeCommits(facts), judgeTimeouts(facts), judgeConnections(facts, pool)];
}

function judgeVersion({ version, isReadOnly }: PostgresFacts): Finding {
  const found = `PostgreSQL ${Math.floor(version / 10_000)}.${version % 10_000} answers`;
  if (version < MIN_VERSION * 10_000)
    return fail('database', found, `use PostgreSQL ${MIN_VERSION} or later`);
  if (!isReadOnly) return ok('database', found);
  return fail(
    'database',
    `${found}, but takes no writes`,
    'point DATABASE_URL at the primary, not at a standby',
  );
}

function judgeCommits({ unsafe }: PostgresFacts): Finding {
  if (unsafe.length === 0) return ok('database commits', 'what is acknowledged is on disk');
  const found = `${unsafe.join(', ')}: a crash may lose logins and revocations that were answered 200`;
  return fail('database commits', found, 'switch it on, at least for our role');
}

function judgeTimeouts({ unlimited }: PostgresFacts): Finding {
  if (unlimited.length === 0) return ok('database timeouts', 'no statement or transaction waits for ever');
  const found = `${unlimited.join(', ')} not set: what a replica has given up on goes on in the server`;
  return warn(
    'database timeouts',
    found,
    'ALTER ROLE … SET, for the role that serves (README, "Regular work")',
  );
}

function judgeConnections({ connections, used }: PostgresFacts, pool: number): Finding {
  const replicas = Math.floor(connections / (pool + 1));
  const found =
    `${connections} connections allowed, ${used} in use by anybody; ` +
    `with DATABASE_POOL ${pool}, and one to look whether the server answers, they are enough for ${replicas} replicas`;
  const todo = 'lower DATABASE_POOL, raise the limit, or put PgBouncer between';
  if (replicas === 0) return fail('database connections', found, todo);
  // A rollout runs one more replica than there are.
  if (replicas < 3)
    return warn('database connections', `${found}, and a rollout needs one more than run`, todo);
  return ok('database connections', found);
}

async function checkMigrations({ pool }: Postgres): Promise<Finding[]> {
  const query = async (sql: string) => (await pool.query<{ migration_name: string }>(sql)).rows;
  const [stuck] = await unfinishedMigrations(query);
  if (stuck !== undefined) {
    const todo = 'if no `latchkey migrate` is at work, run it: it says what to do';
    return [fail('migrations', `${stuck} was begun and is not finished`, todo)];
  }
  const missing = await missingMigrations(query);
  if (missing.length === 0) return [ok('migrations', 'the schema fits this version')];
  const found = `${missing.length} are missing, from ${missing[0] ?? ''} on: replicas of this version stay not ready`;
  return [fail('migrations', found, 'run `npm run migrate`, or `latchkey migrate`')];
}
