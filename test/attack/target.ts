import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import type { Environment } from '../../src/config/config.ts';
import { buildTestApp, type TestApp } from '../support/app.ts';
import { anAccount, bearer, type Pair } from '../support/client.ts';
import { testFolder } from '../support/folder.ts';
import { aSecret, KEYS } from '../support/keys.ts';
import { createLongLivedOver, signUpOver } from '../support/over-http.ts';
import { RIGHTS } from '../../src/domain/rights.ts';
import { aRegisteredService, basic, type TestService } from '../support/registered-service.ts';
import { sql } from '../support/sql.ts';
import type { Attacked } from './operations.ts';

/** A running instance with everything that an attacker wants. */
export interface Target extends TestApp {
  url: string;
  account: ReturnType<typeof anAccount>;
  pair: Pair;
  llt: { id: number; longlived_token: string };
  client: TestService;
  /** Its signing key, as PEM; it lies in `keyFolder`. */
  pem: string;
  keyFolder: string;
  refreshSecret: string;
}

/** Starts an instance with one user, who has one session and one long-lived token. */
export async function aTarget(t: Test, env: Environment = {}): Promise<Target> {
  const keyFolder = testFolder(t);
  const [pem, refreshSecret] = [KEYS.ES256(), aSecret()];
  writeFileSync(join(keyFolder, '0001.pem'), pem);
  const keys = {
    SIGNING_KEYS_DIR: keyFolder,
    REFRESH_TOKEN_SECRET: refreshSecret,
    KEY_PUBLISH_LEAD: '0',
  };
  const app = await buildTestApp(t, { env: { ...keys, ...env } });
  const url = await app.app.listen({ port: 0 });
  const account = anAccount();
  const pair = await signUpOver(url, account);
  const llt = await createLongLivedOver(url, pair.access_token);
  const client = await aRegisteredService(app.databaseUrl, 'billing', RIGHTS);
  // The audience in the reference's example of an exchange.
  await aRegisteredService(app.databaseUrl, 'orders', [], 'orders');
  // The service notes the first use of a pair; do it now, so that it does not look like an attack's change.
  await fetch(`${url}/api/auth/verify`, { headers: bearer(llt.longlived_token) });
  return { ...app, url, account, pair, llt, client, pem, keyFolder, refreshSecret };
}

/** The header of a caller that may do this: the registered service, or the user. */
export function credentialsFor(
  { client, pair }: Target,
  { schemes }: Pick<Attacked, 'schemes'>,
  token = pair.access_token,
): { authorization: string } {
  return schemes.includes('serviceClient') ? basic(client) : bearer(token);
}

/** Columns that change with every use of a token or with the life of a key. */
const VOLATILE = `'{confirmed,last_used_at}'::text[]`;

/** Every row of every table, to show that an attack changed nothing. */
export async function recordOf({
  databaseUrl,
}: Pick<Target, 'databaseUrl'>): Promise<Record<string, unknown[]>> {
  const tables = await sql<{ name: string }>(
    databaseUrl,
    `SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'signing_keys' ORDER BY 1`,
  );
  const record: Record<string, unknown[]> = {};
  for (const { name } of tables) {
    const rows = await sql<{ row: unknown }>(
      databaseUrl,
      `SELECT to_jsonb(each) - ${VOLATILE} AS row FROM "${name}" AS each ORDER BY 1`,
    );
    record[name] = rows.map(({ row }) => row);
  }
  return record;
}

/** The good tokens are still good: the attack ended none. */
export async function assertStillGood(t: Test, { url, pair, llt }: Target): Promise<void> {
  for (const [what, token] of [
    ['access token', pair.access_token],
    ['long-lived token', llt.longlived_token],
  ] as const) {
    const { status } = await fetch(`${url}/api/auth/verify`, { headers: bearer(token) });
    t.equal(status, 200, `the ${what} is still good`);
  }
  const { status } = await fetch(`${url}/api/auth/refresh`, { headers: bearer(pair.refresh_token) });
  t.equal(status, 200, 'the refresh token is still good');
}
