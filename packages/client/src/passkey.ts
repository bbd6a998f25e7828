import type { Client, PasskeyAnswer } from './create-client.ts';
import type { LatchkeyError } from './latchkey-error.ts';
import type { Session } from './session-store.ts';
import {
  browser,
  type AcceptedPasskeys,
  type Assertion,
  type Attestation,
  type Mediation,
} from './web-authn.ts';

export interface PasskeyLogin {
  /** The name of this device in the list of tokens. */
  device?: string;
}

export interface PasskeyOffer extends PasskeyLogin {
  /** Called with the error of a login that failed after the user had chosen a passkey. The offer goes on. */
  onError?: (error: unknown) => void;
}

export interface NewPasskey {
  /** What the user calls it in the list of factors. */
  name: string;
  current_password: string;
}

export interface AddedPasskey {
  id: number;
  /** With the first factor of an account only. */
  recovery_codes?: readonly string[];
}

/** What a ceremony uses of a client, so that a page with a backend-for-frontend can pass its own. */
type Requests = Pick<Client, 'request'>;
type Logins = Pick<Client, 'request' | 'completeLogin'>;

interface Asked {
  rpId: string;
  passkey: PasskeyAnswer;
}

/** The members of Latchkey’s options that a browser takes as bytes. */
interface CreationOptions {
  challenge: string;
  user: { id: string };
  excludeCredentials?: { id: string }[];
}

/** Milliseconds. Latchkey accepts a challenge for 5 minutes, and the user needs some of that time. */
const RENEWAL = 240_000;
const FACTORS = '/api/user/factors';

let last: { abort: () => void } | undefined;
let lastOver: Promise<unknown> = Promise.resolve();

/**
 * Asks the user for a passkey, and logs in. Rejects also with what the browser throws: `NotAllowedError` if
 * the user cancels, and `AbortError` if another ceremony begins.
 */
export function logInWithPasskey(client: Logins, { device }: PasskeyLogin = {}): Promise<Session> {
  const cut = new AbortController();
  return alone(cut, async () => complete(client, await ask(client, cut.signal), device));
}

/**
 * Offers the user’s passkeys in the autofill of a field with `autocomplete="username webauthn"`. The offer
 * ends with a session, whoever opened it, and with the next ceremony. In a browser without such an autofill,
 * it does nothing.
 * @returns what ends it
 */
export function offerPasskey(
  client: Logins & Pick<Client, 'session' | 'onChange'>,
  { device, onError }: PasskeyOffer = {},
): () => void {
  let isOver = false;
  let round = new AbortController();
  const abort = () => {
    isOver = true;
    round.abort();
  };
  const unlisten = client.onChange(() => {
    if (client.session) abort();
  });

  async function offer(): Promise<void> {
    if (!(await browser.PublicKeyCredential?.isConditionalMediationAvailable?.())) return;
    while (!isOver) {
      const { signal } = (round = new AbortController());
      const renewal = new Promise<undefined>((resolve) => {
        signal.onabort = () => {
          resolve(undefined);
        };
      });
      const timer = setTimeout(() => {
        round.abort();
      }, RENEWAL);
      const asked = await ask(client, signal, 'conditional').catch((error: unknown) => {
        if (codeOf(error) === 'factors_disabled') abort();
        // After an outage, or an error of the browser, the next round begins no earlier than it would anyway.
        return renewal;
      });
      clearTimeout(timer);
      if (!asked) continue;
      try {
        await complete(client, asked, device);
        return;
      } catch (error) {
        onError?.(error);
      }
    }
  }

  void alone({ abort }, offer).finally(unlisten);
  return abort;
}

/** Makes a passkey for the user who is signed in. Rejects also with what the browser throws. */
export function addPasskey(client: Requests, { name, current_password }: NewPasskey): Promise<AddedPasskey> {
  const cut = new AbortController();
  return alone(cut, async () => {
    const options = (await client.request('POST', `${FACTORS}/passkey`, {
      current_password,
    })) as CreationOptions;
    const { challenge, user, excludeCredentials = [] } = options;
    let failure: unknown;
    try {
      const credential = (await browser.navigator.credentials.create({
        signal: cut.signal,
        publicKey: {
          ...options,
          challenge: decode(challenge),
          user: { ...user, id: decode(user.id) },
          excludeCredentials: excludeCredentials.map((each) => ({ ...each, id: decode(each.id) })),
        },
      })) as Attestation;
      const { response } = credential;
      const passkey = encoded(credential, {
        clientDataJSON: encode(response.clientDataJSON),
        attestationObject: encode(response.attestationObject),
        transports: response.getTransports?.() ?? [],
      });
      return (await client.request('POST', `${FACTORS}/passkey/confirm`, { name, passkey })) as AddedPasskey;
    } catch (error) {
      failure = error;
      throw error;
    } finally {
      // The authenticator may have made one that Latchkey did not take. While it may still take it, the list may lack it,
      // and the browser would delete it for good.
      if (!isUndecided(failure)) void signalPasskeys(client);
    }
  });
}

/**
 * Tells the browser which passkeys the signed-in user still has, so that it offers no other: call it after a
 * removal. Never rejects, because a browser that was not told only offers a passkey that is refused.
 */
export async function signalPasskeys(client: Requests): Promise<void> {
  const answer = await client.request('GET', FACTORS).catch(() => null);
  const { accepted_passkeys: accepted } = Object(answer) as {
    accepted_passkeys?: AcceptedPasskeys;
  };
  if (accepted) await tell(() => browser.PublicKeyCredential?.signalAllAcceptedCredentials?.(accepted));
}

/** Browsers refuse a second ceremony at a time: ends the last one, and waits for its end. */
function alone<Result>(own: { abort: () => void }, work: () => Promise<Result>): Promise<Result> {
  last?.abort();
  last = own;
  const result = lastOver.then(work);
  lastOver = result.catch(() => null);
  return result;
}

async function ask(client: Requests, signal: AbortSignal, mediation: Mediation = 'optional'): Promise<Asked> {
  const options = (await client.request('POST', '/api/auth/passkey')) as { challenge: string; rpId: string };
  const { challenge, rpId } = options;
  const publicKey = { ...options, challenge: decode(challenge) };
  const get = { mediation, signal, publicKey };
  const credential = (await browser.navigator.credentials.get(get)) as Assertion;
  const { response } = credential;
  const passkey = encoded(credential, {
    clientDataJSON: encode(response.clientDataJSON),
    authenticatorData: encode(response.authenticatorData),
    signature: encode(response.signature),
    ...(response.userHandle && { userHandle: encode(response.userHandle) }),
  });
  return { rpId, passkey };
}

async function complete(client: Logins, { rpId, passkey }: Asked, device?: string): Promise<Session> {
  try {
    return await client.completeLogin({ passkey, ...(device !== undefined && { device }) });
  } catch (error) {
    // This makes browsers delete the passkey, so no other refusal may do it.
    if (codeOf(error) === 'passkey_unknown')
      void tell(() =>
        browser.PublicKeyCredential?.signalUnknownCredential?.({ rpId, credentialId: passkey.id }),
      );
    throw error;
  }
}

/** Whether Latchkey may do, or have done, what was asked. */
function isUndecided(error: unknown): boolean {
  const { code, status = 0 } = Object(error) as Partial<LatchkeyError>;
  return code === 'no_answer' || status >= 500;
}

function codeOf(error: unknown): unknown {
  return (error as Partial<LatchkeyError>).code;
}

/** Not every browser takes signals, and there is nothing to do about one that fails. */
async function tell(signal: () => Promise<void> | undefined): Promise<void> {
  try {
    await signal();
  } catch {
    // The browser may go on offering the passkey, and Latchkey goes on refusing it.
  }
}

/** By hand: with some password managers a credential’s `toJSON` throws, and older browsers have none. */
function encoded<Response>(credential: Assertion | Attestation, response: Response) {
  const id = encode(credential.rawId);
  const clientExtensionResults = credential.getClientExtensionResults();
  return { id, rawId: id, type: 'public-key', response, clientExtensionResults };
}

function encode(bytes: ArrayBuffer): string {
  const text = btoa(String.fromCharCode(...new Uint8Array(bytes)));
  return text.replace(/\+/g, '-').replace(/\//g, '_').replace(/=/g, '');
}

function decode(text: string): Uint8Array {
  const bytes = atob(text.replace(/-/g, '+').replace(/_/g, '/'));
  return Uint8Array.from(bytes, (byte) => byte.charCodeAt(0));
}
