import type { Test } from 'tap';
import { makePostgres, type Postgres, type PostgresOptions } from '../../src/infra/postgres/client.ts';

/** The service's pool, closed when the test ends. */
export function openPostgres(t: Test, options: Partial<PostgresOptions> & { url: string }): Postgres {
  const postgres = makePostgres({ pool: 1, timeout: 5000, observe: null, ...options });
  t.teardown(() => postgres.close());
  return postgres;
}
