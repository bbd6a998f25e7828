import type { LightMyRequestResponse } from 'fastify';
import { randomBytes } from 'node:crypto';
import { Secret, TOTP } from 'otpauth';
import { openSecretBox } from '../../src/composition/signing-keys.ts';
import { hashRecoveryCode, newRecoveryCodes } from '../../src/domain/factors/recovery-codes.ts';
import { SECRET_BYTES, toBase32 } from '../../src/domain/factors/totp.ts';
import type { TestApp } from './app.ts';
import { call, pairOf, type Pair, type Target } from './client.ts';
import { leakWatch } from './leaks/leak-watch.ts';
import { sql } from './sql.ts';

/** Milliseconds. */
export const STEP = 30_000;

/** A user's phone, and the codes on paper. */
export interface TestFactor {
  id: number;
  /** Base32. */
  secret: string;
  recoveryCodes: string[];
  /** What the app shows now, or some steps later. Each is good once. */
  code: (steps?: number) => string;
  /** The same for now, as if no code had been used before: a test logs in more often than twice a minute. */
  freshCode: () => Promise<string>;
}

/** The authenticator app of a user. @param secret base32. */
export function anApp(secret: string): (steps?: number) => string {
  const totp = new TOTP({ secret: Secret.fromBase32(secret) });
  return (steps = 0) => totp.generate({ timestamp: Date.now() + steps * STEP });
}

/** A second factor that an account has had from its beginning, written as the service writes one. */
export async function aFactor(
  { composition, databaseUrl }: Pick<TestApp, 'composition' | 'databaseUrl'>,
  { user }: Pair,
): Promise<TestFactor> {
  const bytes = randomBytes(SECRET_BYTES);
  const secret = toBase32(bytes);
  const sealed = openSecretBox(composition.app.config).seal(user.id, bytes);
  const recoveryCodes = newRecoveryCodes(randomBytes);
  for (const shown of [secret, ...recoveryCodes]) leakWatch.remember('second factor', shown);
  const [row] = await sql<{ id: string }>(
    databaseUrl,
    `WITH owner AS (UPDATE users SET factor_since = created_at WHERE id = $1 RETURNING id),
      codes AS (INSERT INTO recovery_codes (user_id, code_hash) SELECT id, unnest($4::bytea[]) FROM owner)
    INSERT INTO factors (user_id, type, name, created_at, confirmed_at, key_id, secret)
    SELECT id, 'totp', 'Authenticator app', now(), now(), $2, $3 FROM owner RETURNING id`,
    [user.id, sealed.keyId, Buffer.from(sealed.secret), recoveryCodes.map((code) => hashRecoveryCode(code))],
  );
  const id = Number(row?.id);
  const code = anApp(secret);
  return {
    id,
    secret,
    recoveryCodes,
    code,
    async freshCode() {
      await sql(databaseUrl, 'UPDATE factors SET last_step = 0 WHERE id = $1', [id]);
      return code();
    },
  };
}

/** The login token of a first step. @throws Error if the answer does not ask for the second one */
export function loginTokenOf(response: LightMyRequestResponse): string {
  const { code, login_token: token } = response.json<{ code?: string; login_token?: string }>();
  if (code !== 'second_factor_required' || token === undefined)
    throw new Error(`no second step: ${response.statusCode} ${response.body}`);
  return token;
}

/** The first step of a login. */
export async function firstStep(
  target: Target,
  username: string,
  {
    password = 'difference engine',
    headers = {},
  }: { password?: string; headers?: Record<string, string> } = {},
): Promise<string> {
  return loginTokenOf(await call(target, 'POST /api/auth', { payload: { username, password }, headers }));
}

/** The second step of a login. */
export function secondStep(
  target: Target,
  payload: { login_token: string; code?: string; recovery_code?: string; device?: string },
  headers: Record<string, string> = {},
) {
  return call(target, 'POST /api/auth/second-factor', { payload, headers });
}

/** Both steps. */
export async function logInWithFactor(
  target: Target,
  username: string,
  factor: TestFactor,
  headers: Record<string, string> = {},
): Promise<Pair> {
  const token = await firstStep(target, username, { headers });
  return pairOf(await secondStep(target, { login_token: token, code: await factor.freshCode() }, headers));
}
