import type { Audit } from '../audit/event.ts';
import type { Sourced } from '../audit/source.ts';
import { CLOCK_TOLERANCE, expiredError, type Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import type { LimitCode } from '../factors/code-limits.ts';
import { LOGIN_TOKEN_TTL, type LoginTokens, type PasswordProof } from '../factors/login-token.ts';
import type { FactorStore, SecondStepAccount, SecretBox } from '../factors/ports.ts';
import { hashRecoveryCode } from '../factors/recovery-codes.ts';
import { readCode, stepOf } from '../factors/totp.ts';
import { fieldError, refuse, type Parsed } from '../identifiers.ts';
import type { Guess, GuessOrigin, LimitGuess } from '../passwords/guessing-limits.ts';
import type { CodeKind } from '../second-step.ts';
import type { FactorProof } from '../tokens/ports.ts';
import { parseDevice } from '../users/device-name.ts';
import type { OpenSession } from './open-session.ts';
import type { SessionGrant } from './session.ts';

interface CompleteLoginPorts {
  factors: Pick<FactorStore, 'findAccount'>;
  loginTokens: Pick<LoginTokens, 'read'>;
  secrets: Pick<SecretBox, 'open'>;
  openSession: OpenSession;
  limitCode: LimitCode;
  limitGuess: LimitGuess;
  clock: Clock;
  audit: Audit;
}

export interface CompleteLoginRequest {
  loginToken: string;
  /** As the user has typed it. */
  given: { method: CodeKind; code: string };
  device: string;
  /** Keyed hash of address and User-Agent. */
  caller: string;
  origin: GuessOrigin;
  from: Sourced;
}

/**
 * The second step of a login: proves the account's second factor, and opens the session. A login token may be sent again,
 * because each session uses up a code.
 * @throws AuthError `validation_failed`, `invalid_login_token`, `invalid_second_factor`, `rate_limited`, `unavailable`
 */
export function makeCompleteLogin(ports: CompleteLoginPorts) {
  return async function completeLogin(request: CompleteLoginRequest): Promise<SessionGrant> {
    const { origin, from } = request;
    const { device, proof } = parseRequest(request);
    const password = readToken(ports, request.loginToken);
    const account = await findAccount(ports, password, typeof proof === 'string' ? undefined : proof);
    const open = (factor: FactorProof | null) =>
      openProven(ports, { ...request, device }, { password, factor }, account);
    if (typeof proof === 'string')
      return ports.limitCode({ account, origin, from }, async () => open(totpProof(ports, account, proof)));
    // Recovery codes count as resets of a password do, for the network alone: nobody guesses 120 bits, and an owner whose
    // codes a stranger has used up gets in with one.
    const guess: Guess = {
      name: null,
      account: null,
      origin,
      from,
      failure: () => ({ event: 'factor.refused', userId: account.userId, method: 'recovery_code' }),
    };
    // The commit that uses the code up decides. But who knows the password alone must not fill the account's lane.
    return ports.limitGuess(guess, () =>
      open(account.hasCode ? { type: 'recovery_code', codeHash: proof } : null),
    );
  };
}

export type CompleteLogin = ReturnType<typeof makeCompleteLogin>;

/**
 * What has not the form of a code is no guess: it takes no slot and leaves no audit event, or 100 bad texts would keep a
 * whole network from its recovery codes.
 * @returns the code of an app, or a recovery code's hash.
 * @throws AuthError `validation_failed`
 */
function parseRequest({ device, given: { method, code } }: CompleteLoginRequest): {
  device: string;
  proof: string | Buffer;
} {
  const name = parseDevice(device);
  const proof = method === 'totp' ? readCode(code) : readRecoveryCode(code);
  const errors = [
    ...(name.ok ? [] : [fieldError('/device', name)]),
    ...(proof.ok ? [] : [fieldError(method === 'totp' ? '/code' : '/recovery_code', proof)]),
  ];
  if (!name.ok || !proof.ok) throw new AuthError('validation_failed', { errors });
  return { device: name.value, proof: proof.value };
}

function readRecoveryCode(text: string): Parsed<Buffer> {
  const codeHash = hashRecoveryCode(text);
  return codeHash
    ? { ok: true, value: codeHash }
    : refuse({ code: 'format', message: 'must be a recovery code, of 24 letters and digits' });
}

/** @throws AuthError `invalid_login_token`; `unavailable` if it is too old by a clock that is not trusted */
function readToken({ loginTokens, clock }: CompleteLoginPorts, token: string): PasswordProof {
  const password = loginTokens.read(token);
  if (!password) throw new AuthError('invalid_login_token');
  const age = clock.now() - password.issuedAt;
  const tolerance = CLOCK_TOLERANCE * 1000;
  // Nor from the future: a replica whose clock is fast must not give tokens a longer life.
  if (age >= LOGIN_TOKEN_TTL + tolerance || age < -tolerance)
    throw expiredError(clock, 'invalid_login_token');
  return password;
}

/** @throws AuthError `invalid_login_token` if the token is void, `unavailable` */
async function findAccount(
  { factors }: CompleteLoginPorts,
  { userId, passwordVersion, enabledAt }: PasswordProof,
  codeHash: Uint8Array | undefined,
): Promise<SecondStepAccount> {
  const account = await factors.findAccount(userId, codeHash);
  const isGood =
    account?.disabled === false &&
    account.passwordVersion === passwordVersion &&
    account.enabledAt === enabledAt &&
    // Without a factor, a login has one step again.
    (account.totp !== null || account.codesLeft > 0 || account.passkeys.all > 0);
  if (!isGood) throw new AuthError('invalid_login_token');
  return account;
}

async function openProven(
  ports: CompleteLoginPorts,
  { device, caller, origin, from }: CompleteLoginRequest,
  { password, factor }: { password: PasswordProof; factor: FactorProof | null },
  account: SecondStepAccount,
): Promise<SessionGrant> {
  if (!factor) throw new AuthError('invalid_second_factor');
  const opened = await ports
    .openSession({ password, factor, device, caller, origin, from })
    .catch((error: unknown) => {
      // The password was changed since the account was read.
      if (error instanceof AuthError && error.code === 'invalid_credentials') return null;
      throw error;
    });
  if (!opened) throw new AuthError('invalid_login_token');
  if (factor.type === 'recovery_code')
    ports.audit({ event: 'recovery_code.used', userId: account.userId, tokenId: opened.tokenId }, from);
  return opened;
}

/** @returns null for a wrong or used code. @throws AuthError `unavailable` without a right clock, or the secret's key */
function totpProof(
  { secrets, clock }: CompleteLoginPorts,
  { userId, totp }: SecondStepAccount,
  code: string,
): FactorProof | null {
  if (!totp) return null;
  if (!clock.isTrusted()) throw new AuthError('unavailable');
  const step = stepOf(secrets.open(userId, totp.sealed), code, clock.now());
  // Stryker disable next-line ConditionalExpression: null is not greater than any step either
  return step !== null && step > totp.lastStep ? { type: 'totp', factorId: totp.id, step } : null;
}
