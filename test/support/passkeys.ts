import nid from 'nid-webauthn-emulator';
import type { Environment } from '../../src/config/config.ts';
import type { EnrolmentOptions } from '../../src/domain/passkeys/own-passkeys.ts';
import type { LoginOptions } from '../../src/domain/passkeys/log-in-with-passkey.ts';
import { call, pairOf, type Pair, type Target } from './client.ts';
import { FACTOR_PASSWORD } from './own-factors.ts';

export const ORIGIN = 'https://app.example.com';

/** Turns passkeys on. */
export const PASSKEYS: Environment = { WEBAUTHN_RP_ID: 'example.com', WEBAUTHN_ORIGINS: ORIGIN };

/** A browser with an authenticator, which answers as honest ones do. */
export function aBrowser(parameters: ConstructorParameters<typeof nid.AuthenticatorEmulator>[0] = {}) {
  // By default all authenticators of a process share theirs.
  const credentialsRepository = new nid.PasskeysCredentialsMemoryRepository();
  return new nid.WebAuthnEmulator(new nid.AuthenticatorEmulator({ credentialsRepository, ...parameters }));
}

export type Browser = ReturnType<typeof aBrowser>;

type Headers = Record<string, string>;

/** The answer of a request that must have succeeded. */
async function answerOf<Answer>(response: ReturnType<typeof call>): Promise<Answer> {
  const { statusCode, body } = await response;
  if (statusCode !== 200) throw new Error(`refused: ${statusCode} ${body}`);
  return JSON.parse(body) as Answer;
}

export function enrolmentOptions(
  target: Target,
  token: string,
  headers: Headers = {},
): Promise<EnrolmentOptions> {
  const options = { token, payload: FACTOR_PASSWORD, headers };
  return answerOf(call(target, 'POST /api/user/factors/passkey', options));
}

/** What the browser makes of the options of an enrolment. */
export function created(browser: Browser, options: EnrolmentOptions, origin = ORIGIN) {
  return browser.createJSON(origin, options);
}

export function confirmPasskey(
  target: Target,
  token: string,
  passkey: object,
  name = 'Phone',
  headers: Headers = {},
) {
  const options = { token, payload: { name, passkey }, headers };
  return call(target, 'POST /api/user/factors/passkey/confirm', options);
}

/** Both requests. */
export async function addPasskey(target: Target, token: string, browser = aBrowser()) {
  const options = await enrolmentOptions(target, token);
  const passkey = created(browser, options);
  const confirmed = await answerOf<{ id: number; recovery_codes?: string[] }>(
    confirmPasskey(target, token, passkey),
  );
  return { ...confirmed, browser, options, passkey };
}

export function loginOptions(target: Target): Promise<LoginOptions> {
  return answerOf(call(target, 'POST /api/auth/passkey'));
}

/** What the browser makes of the options of a login. */
export function asserted(browser: Browser, options: LoginOptions, origin = ORIGIN) {
  return browser.getJSON(origin, options);
}

export function sendPasskey(target: Target, passkey: object, more: object = {}, headers: Headers = {}) {
  return call(target, 'POST /api/auth/second-factor', { payload: { passkey, ...more }, headers });
}

/** Both requests. */
export async function logInWithPasskey(target: Target, browser: Browser): Promise<Pair> {
  return pairOf(await sendPasskey(target, asserted(browser, await loginOptions(target))));
}
