import type { AuthenticatorState } from '../tokens/ports.ts';
import type { FactorCaller } from '../factors/ports.ts';
import type { TokenKey } from '../principal.ts';

/** For how long the challenge of a login or an enrolment is good, in milliseconds. */
export const CHALLENGE_TTL = 300_000;

/** What browsers answer (WebAuthn Level 3, section 5.1): the members that count, binary ones in base64url. */
interface Answer<Response> {
  id: string;
  rawId: string;
  type: string;
  response: Response;
}

/** An AuthenticationResponseJSON. */
export type LoginAnswer = Answer<{
  clientDataJSON: string;
  authenticatorData: string;
  signature: string;
  userHandle?: string;
}>;

/** A RegistrationResponseJSON. */
export interface EnrolmentAnswer extends Answer<{
  clientDataJSON: string;
  attestationObject: string;
  transports?: string[];
}> {
  clientExtensionResults?: { credProps?: { rk?: boolean } };
}

/** The answer at a login, whose form is right. Nothing is proved yet. */
export interface PresentedPasskey {
  answer: LoginAnswer;
  credentialId: Uint8Array;
  /** null if there is none of our length. */
  handle: Uint8Array | null;
  /** In the spelling of the answer, which the signature covers. */
  challenge: string;
  /** Whether a page of ours has asked for it, for a login, and in no frame. */
  isOurs: boolean;
}

/** What an enrolment says of a new passkey. */
export interface NewPasskey extends AuthenticatorState {
  credentialId: Uint8Array;
  /** SubjectPublicKeyInfo, in DER. */
  publicKey: Uint8Array;
  /** How browsers may reach it. */
  transports: string[];
}

/** Verifies what authenticators answer. There is none if passkeys are off. */
export interface VerifyAnswers {
  /** WEBAUTHN_RP_ID. */
  readonly rpId: string;
  /** @returns null if its form is wrong. */
  read(answer: LoginAnswer): PresentedPasskey | null;
  /** @returns null unless the flags are right and this key has signed it. */
  checkLogin(presented: PresentedPasskey, publicKey: Uint8Array): Promise<AuthenticatorState | null>;
  /** @returns null unless it answers this challenge, and we take such a passkey. */
  checkEnrolment(answer: EnrolmentAnswer, challenge: Uint8Array): Promise<NewPasskey | null>;
}

/** What a login's challenge says. */
export interface IssuedChallenge {
  /** Milliseconds since 1970. */
  issuedAt: number;
  /** Stored once the challenge has opened a session. Nonces of later challenges are greater, byte by byte. */
  nonce: Uint8Array;
}

/** The challenges of logins. They are stored nowhere before one has opened a session. */
export interface LoginChallenges {
  /** @param at milliseconds since 1970. */
  issue: (at: number) => string;
  /** @returns null if we did not sign it. Its age is not checked. */
  read: (challenge: string) => IssuedChallenge | null;
}

/** A passkey on record, and what a login with it needs of its account. */
export interface PasskeyRecord extends AuthenticatorState {
  factorId: number;
  userId: number;
  handle: Uint8Array;
  rpId: string;
  publicKey: Uint8Array;
  /** As `SecondStepAccount`. */
  passwordVersion: number;
  disabled: boolean;
  enabledAt: number;
}

/** What there is of a passkey that was presented. */
export type FoundPasskey =
  /** `isSpent`: it has signed this challenge for an earlier session, as far as a read without a lock tells. */
  | { passkey: PasskeyRecord; isSpent: boolean }
  /** `isOrphan`: the handle is an account's, which has no such passkey and is enrolling none. */
  | { passkey: null; isOrphan: boolean };

/** A passkey that a session has begun to enrol. */
export interface Enrolment {
  factorId: number;
  challenge: Uint8Array;
  /** Milliseconds since 1970. */
  createdAt: number;
}

/**
 * The passkeys, each beside its row among the second factors. Changes are made, and fail, as those of
 * `FactorStore`.
 */
export interface PasskeyStore {
  /** @param nonce of the challenge that it has signed. */
  find(credentialId: Uint8Array, handle: Uint8Array | null, nonce: Uint8Array): Promise<FoundPasskey>;

  /**
   * Begins an enrolment for the caller's session, in place of the account's unconfirmed factor.
   * @param enrolment.handle becomes the account's, unless it has one.
   * @returns the account's handle, and the passkeys of this RP ID that it has.
   * @throws AuthError as `FactorStore.setUp`, and `too_many_factors`
   */
  setUp(
    caller: FactorCaller,
    enrolment: {
      handle: Uint8Array;
      challenge: Uint8Array;
      createdAt: number;
      passwordVersion: number;
      limit: number;
    },
  ): Promise<{ handle: Uint8Array; existing: { credentialId: Uint8Array; transports: string[] }[] }>;

  /** The enrolment that this session has begun and not confirmed; null if there is none. */
  findUnconfirmed(key: TokenKey): Promise<Enrolment | null>;

  /**
   * Confirms the passkey that this session has begun to enrol.
   * @returns as `FactorStore.confirm`.
   * @throws AuthError as `FactorStore.confirm`; `invalid_passkey` if its credential is on record, whosever it
   * is
   */
  confirm(
    caller: FactorCaller,
    confirmation: {
      factorId: number;
      name: string;
      passkey: NewPasskey;
      at: number;
      codeHashes: readonly Uint8Array[];
    },
  ): Promise<{ isFirst: boolean } | null>;
}
