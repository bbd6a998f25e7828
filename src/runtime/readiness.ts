import { AuthError } from '../domain/errors.ts';
import { describeObjection, type Standing } from '../domain/standing.ts';
import type { TokenStateStore } from '../domain/tokens/token-state-store.ts';
import type { Readiness } from '../http/ops.ts';
import type { Postgres } from '../infra/postgres/client.ts';
import { causeOf } from '../infra/postgres/cause.ts';
import { SettingsError } from '../infra/postgres/settings-error.ts';
import type { ClockWatch } from './clock-watch.ts';
import { withTimeout } from './with-timeout.ts';
import { missingMigrations } from '../infra/postgres/schema-version.ts';

interface ReadinessPorts {
  postgres: Pick<Postgres, 'probe'>;
  tokenStates: Pick<TokenStateStore, 'now'>;
  /** A code of why Redis fails; null if it works. */
  redisFailure?: () => string | null;
  clock: Pick<ClockWatch, 'compare' | 'isWrong' | 'state'>;
  standing: Standing;
  /** A draining replica is not ready, and its responses close their connections. */
  isDraining: () => boolean;
}

/** How long a probe waits for a store that hangs; milliseconds. */
const CHECK_TIMEOUT = 1000;

/**
 * Ready once each store was reached and the schema is current. After that only draining, a wrong clock and a disagreement
 * with the installation make the replica not ready.
 * The checks always report the present state.
 */
export function makeReadiness({
  postgres,
  tokenStates,
  redisFailure = () => null,
  clock,
  standing,
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
    return redisFailure() === 'OOM' ? 'full' : 'ok';
  };

  return async function readiness(): Promise<Readiness> {
    const [databaseState, sessionsState] = await Promise.all([
      withTimeout(database(), CHECK_TIMEOUT).catch((error: unknown) =>
        error instanceof SettingsError
          ? error.message
          : `PostgreSQL fails (${causeOf(error)?.code ?? 'unknown'})`,
      ),
      withTimeout(sessions(), CHECK_TIMEOUT).catch((error: unknown) => error),
      // A store that does not answer is reported above.
      withTimeout(clock.compare(), CHECK_TIMEOUT).catch(() => undefined),
    ]);
    const answers = {
      database: databaseState,
      sessions:
        typeof sessionsState === 'string' ? sessionsState : explain(sessionsState, databaseState === 'ok'),
    };
    for (const [name, answer] of Object.entries(answers))
      if (answer === 'ok' || answer === 'full') passed.add(name);
    const draining = isDraining();
    const objection = standing.objection();
    const passedAll = Object.keys(answers).every((name) => passed.has(name));
    return {
      ready: !draining && !clock.isWrong() && objection === null && passedAll,
      draining,
      checks: answers,
      clock: clock.state(),
      installation: objection === null ? 'ok' : describeObjection(objection),
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
