import type { SessionStateStore } from './domain/sessions/ports.ts';
import type { Readiness } from './http/ops/health.ts';
import type { Postgres } from './infra/postgres/client.ts';
import { within } from './within.ts';
import { missingMigrations } from './infra/postgres/schema-version.ts';

interface ReadinessPorts {
  postgres: Pick<Postgres, 'probe'>;
  states: Pick<SessionStateStore, 'now'>;
  isDraining: () => boolean;
}

/** A probe may not wait for a store that hangs; milliseconds. */
const CHECK_TIMEOUT = 1000;

/**
 * Ready once each store has been reached and the schema fits; from then on only draining turns it. The checks go on
 * telling how things are now.
 */
export function makeReadiness({ postgres, states, isDraining }: ReadinessPorts) {
  const passed = new Set<string>();
  const checks: Record<string, () => Promise<string>> = {
    database: async () => {
      const missing = await missingMigrations(
        async (sql) => (await postgres.probe.query<{ migration_name: string }>(sql)).rows,
      );
      return missing.length === 0
        ? 'ok'
        : `the schema is older than the code: run \`npm run migrate\` (${missing.length} to apply)`;
    },
    sessions: async () => {
      await states.now();
      return 'ok';
    },
  };

  return async function readiness(): Promise<Readiness> {
    const names = Object.keys(checks);
    const answers = await Promise.all(
      Object.entries(checks).map(async ([name, check]) => {
        const answer = await within(check(), CHECK_TIMEOUT).catch(() => 'cannot be reached');
        if (answer === 'ok') passed.add(name);
        return [name, answer] as const;
      }),
    );
    const draining = isDraining();
    return {
      ready: !draining && names.every((name) => passed.has(name)),
      draining,
      checks: Object.fromEntries(answers),
    };
  };
}
