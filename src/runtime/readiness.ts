import { AuthError } from '../domain/errors.ts';
import type { TokenStateStore } from '../domain/tokens/token-states.ts';
import type { Readiness } from '../http/ops/health.ts';
import type { Postgres } from '../infra/postgres/client.ts';
import { causeOf } from '../infra/postgres/cause.ts';
import { withTimeout } from './with-timeout.ts';
import { missingMigrations } from '../infra/postgres/schema-version.ts';

interface ReadinessPorts {
  postgres: Pick<Postgres, 'probe'>;
  tokenStates: Pick<TokenStateStore, 'now'>;
  /** A code of why Redis fails; null if it works. */
  redisFailure?: () => string | null;
  isDraining: () => boolean;
}

/** How long a probe waits for a store that hangs; milliseconds. */
const CHECK_TIMEOUT = 1000;

/**
 * Ready once each store was reached and the schema is current. After that only draining makes the replica not ready.
 * The checks always report the present state.
 */
export function makeReadiness({
  postgres,
  tokenStates,
  redisFailure = () => null,
  isDraining,
}: ReadinessPorts) {
  const passed = new Set<string>();
  const database = async () => {
    const missing = await missingMigrations(
      async (sql) => (await postgres.probe.query<{ migration_name: string }>(sql)).rows,
    );
    return missing.length === 0
      ? 'ok'
      : `the schema is older than the code: run \`npm run migrate\` (${missing.length} to apply)`;
  };
  const sessions = async () => {
    await tokenStates.now();
    return 'ok';
  };

  return async function readiness(): Promise<Readiness> {
    const [databaseState, sessionsState] = await Promise.all([
      withTimeout(database(), CHECK_TIMEOUT).catch(
        (error: unknown) => `PostgreSQL fails (${causeOf(error)?.code ?? 'unknown'})`,
      ),
      withTimeout(sessions(), CHECK_TIMEOUT).catch((error: unknown) => error),
    ]);
    const answers = {
      database: databaseState,
      sessions: sessionsState === 'ok' ? 'ok' : explain(sessionsState, databaseState === 'ok'),
    };
    for (const [name, answer] of Object.entries(answers)) if (answer === 'ok') passed.add(name);
    const draining = isDraining();
    return {
      ready: !draining && Object.keys(answers).every((name) => passed.has(name)),
      draining,
      checks: answers,
    };
  };

  /**
   * Sessions are served only after the database's revocations have been replayed to Redis: that is no failure of Redis.
   */
  function explain(error: unknown, databaseWorks: boolean): string {
    const isWaiting = error instanceof AuthError && error.cause === undefined;
    const failure = redisFailure() ?? (isWaiting ? null : 'timeout');
    if (failure !== null) return `Redis fails (${failure})`;
    return databaseWorks ? 'wait until revocations are replayed' : 'wait for the database';
  }
}
