import type { Audit } from '../audit/event.ts';
import type { Sourced } from '../audit/source.ts';
import { CLOCK_TOLERANCE, expiredError, type Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import { fieldError } from '../identifiers.ts';
import type { Budget } from '../limits/budget.ts';
import type { Observe } from '../metrics/observe.ts';
import type { GuessOrigin } from '../passwords/guessing-limits.ts';
import type { OpenSession } from '../sessions/open-session.ts';
import type { SessionGrant } from '../sessions/session.ts';
import type { AuthenticatorState } from '../tokens/ports.ts';
import { parseDevice } from '../users/device-name.ts';
import {
  CHALLENGE_TTL,
  type IssuedChallenge,
  type LoginAnswer,
  type LoginChallenges,
  type PasskeyRecord,
  type PasskeyStore,
  type PresentedPasskey,
  type VerifyAnswers,
} from './ports.ts';

interface LogInWithPasskeyPorts {
  passkeys: Pick<PasskeyStore, 'find'>;
  /** null if passkeys are off. */
  verifyAnswers: VerifyAnswers | null;
  loginChallenges: LoginChallenges;
  openSession: OpenSession;
  /** RATE_LIMIT_LLT, apart from long-lived tokens. */
  budget: Budget;
  clock: Clock;
  audit: Audit;
  observe: Pick<Observe, 'passkeyRefused'>;
}

export interface PasskeyLoginRequest {
  answer: LoginAnswer;
  device: string;
  /** Keyed hash of address and User-Agent. */
  caller: string;
  origin: GuessOrigin;
  from: Sourced;
}

/** A PublicKeyCredentialRequestOptionsJSON. Without credentials, since nobody has said who logs in. */
export interface LoginOptions {
  challenge: string;
  timeout: number;
  rpId: string;
  userVerification: 'required';
}

/**
 * A login with a passkey alone, which proves both steps. Failures are not counted for the account or the
 * network, because nobody guesses a signature and a count could lock a network out. Sessions are: other logins cost a
 * hash each, and nothing else would bound how many an account opens and leaves in the stores.
 */
export function makeLogInWithPasskey(ports: LogInWithPasskeyPorts) {
  const { loginChallenges, clock, observe } = ports;

  return {
    /** What a browser asks the user's authenticator. @throws AuthError `factors_disabled` */
    options(): LoginOptions {
      const { rpId } = requirePasskeys(ports.verifyAnswers);
      const challenge = loginChallenges.issue(clock.now());
      return { challenge, timeout: CHALLENGE_TTL, rpId, userVerification: 'required' };
    },

    /**
     * @throws AuthError `factors_disabled`, `validation_failed`, `invalid_passkey`, `passkey_unknown`,
     * `rate_limited`, `unavailable`
     */
    async logIn(request: PasskeyLoginRequest): Promise<SessionGrant> {
      const verifyAnswers = requirePasskeys(ports.verifyAnswers);
      const device = parseDevice(request.device);
      if (!device.ok) throw new AuthError('validation_failed', { errors: [fieldError('/device', device)] });
      try {
        const proven = await prove(ports, verifyAnswers, request.answer);
        return await ports.budget({ userId: proven.passkey.userId }, request.from, () =>
          open(ports, { ...request, device: device.value }, proven),
        );
      } catch (error) {
        if (error instanceof AuthError && REFUSALS.includes(error.code)) observe.passkeyRefused();
        throw error;
      }
    },
  };
}

export type LogInWithPasskey = ReturnType<typeof makeLogInWithPasskey>;

const REFUSALS: readonly string[] = ['invalid_passkey', 'passkey_unknown'];

/** @throws AuthError `factors_disabled` */
export function requirePasskeys(verifyAnswers: VerifyAnswers | null): VerifyAnswers {
  if (!verifyAnswers) throw new AuthError('factors_disabled');
  return verifyAnswers;
}

interface ProvenPasskey {
  passkey: PasskeyRecord;
  challenge: IssuedChallenge;
  shown: AuthenticatorState;
}

/** @throws AuthError `invalid_passkey`, `passkey_unknown`, `unavailable` */
async function prove(
  ports: LogInWithPasskeyPorts,
  verifyAnswers: VerifyAnswers,
  answer: LoginAnswer,
): Promise<ProvenPasskey> {
  const presented = verifyAnswers.read(answer);
  if (!presented) throw new AuthError('invalid_passkey');
  const challenge = readChallenge(ports, presented);
  if (!presented.isOurs) throw new AuthError('invalid_passkey');
  const { handle } = presented;
  const found = await ports.passkeys.find(presented.credentialId, handle, challenge.nonce);
  if (!found.passkey) throw new AuthError(found.isOrphan ? 'passkey_unknown' : 'invalid_passkey');
  const { passkey, isSpent } = found;
  // The commit decides. But a thief of a used answer must not send it again and again to the account's lane.
  if (isSpent) throw new AuthError('invalid_passkey');
  // A passkey keeps its RP ID, and a browser would not use it for another one.
  const isOfRpId = passkey.rpId === verifyAnswers.rpId;
  const shown = isOfRpId ? await verifyAnswers.checkLogin(presented, passkey.publicKey) : null;
  const isOwners = handle !== null && Buffer.compare(handle, passkey.handle) === 0;
  if (!shown || !isOwners || passkey.disabled) throw new AuthError('invalid_passkey');
  return { passkey, challenge, shown };
}

/** @throws AuthError `invalid_passkey`; `unavailable` if it is too old by a clock that is not trusted */
function readChallenge(
  { loginChallenges, clock }: LogInWithPasskeyPorts,
  { challenge: text }: PresentedPasskey,
): IssuedChallenge {
  const challenge = loginChallenges.read(text);
  if (!challenge) throw new AuthError('invalid_passkey');
  const age = clock.now() - challenge.issuedAt;
  const tolerance = CLOCK_TOLERANCE * 1000;
  // A challenge from the future is refused too: a replica with a fast clock must not give it a longer life.
  if (age >= CHALLENGE_TTL + tolerance || age < -tolerance) throw expiredError(clock, 'invalid_passkey');
  return challenge;
}

/** @throws AuthError `invalid_passkey`, `rate_limited`, `unavailable` */
async function open(
  ports: LogInWithPasskeyPorts,
  { device, caller, origin, from }: PasskeyLoginRequest,
  { passkey, challenge, shown }: ProvenPasskey,
): Promise<SessionGrant> {
  const { userId, factorId, passwordVersion, enabledAt } = passkey;
  const opened = await ports
    .openSession({
      password: { userId, passwordVersion, enabledAt },
      factor: { type: 'passkey', factorId, challenge: challenge.nonce, shown },
      device,
      caller,
      origin,
      from,
    })
    .catch((error: unknown) => {
      // The password was changed, or the account disabled and enabled, since the record was read.
      if (error instanceof AuthError && error.code === 'invalid_credentials') return null;
      throw error;
    });
  if (!opened) throw new AuthError('invalid_passkey');
  // Both are accepted: synced passkeys do either, and so do logins that overtake each other.
  const signal = { userId, tokenId: opened.tokenId, factorId };
  // An authenticator that does not count answers 0 each time.
  if (passkey.counter > 0 && shown.counter <= passkey.counter)
    ports.audit({ event: 'passkey.counter_behind', ...signal }, from);
  if (shown.backupEligible !== passkey.backupEligible)
    ports.audit({ event: 'passkey.eligibility_changed', ...signal }, from);
  return opened;
}
