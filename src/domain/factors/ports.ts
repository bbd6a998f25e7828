import type { CallerKey, TokenKey } from '../principal.ts';
import type { AccountKey } from '../identifiers.ts';
import type { TokenRecord } from '../tokens/token-record.ts';
import type { Factor } from './factor.ts';

/** An encrypted TOTP secret. */
export interface SealedSecret {
  /** Names the key: it is taken from the key's hash. */
  keyId: string;
  secret: Uint8Array;
}

/** Encrypts TOTP secrets under FACTOR_KEYS, each bound to its user. */
export interface SecretBox {
  /** Whether a secret can be encrypted: without a key no factor can be added. */
  readonly canSeal: boolean;
  /** The keys that are loaded, the one that encrypts first. */
  readonly keyIds: readonly string[];
  /** @throws AuthError `factors_disabled` without a key */
  seal(userId: number, secret: Uint8Array): SealedSecret;
  /** @throws AuthError `unavailable` if its key is not loaded, or it is not this user's */
  open(userId: number, sealed: SealedSecret): Buffer;
}

/** What an account's owner sees of its factors. */
export interface FactorList {
  /** The confirmed ones, oldest first. */
  factors: Factor[];
  /** Recovery codes that were not used. */
  codesLeft: number;
  /** null if passkeys are off, or the account has never set one up. */
  accepted: AcceptedPasskeys | null;
}

/** What a browser may be told of an account's passkeys (`signalAllAcceptedCredentials`). */
export interface AcceptedPasskeys {
  rpId: string;
  handle: Uint8Array;
  /** Of this RP ID. */
  credentialIds: Uint8Array[];
}

/** What the second step of a login needs of its account. */
export interface SecondStepAccount {
  userId: number;
  /** How often the password was changed. */
  passwordVersion: number;
  disabled: boolean;
  /** When it was last enabled again, in milliseconds since 1970; 0 for never. */
  enabledAt: number;
  /** The confirmed TOTP; null if it has none. */
  totp: TotpRecord | null;
  /** Those that count as factors, and those among them that this service can use. */
  passkeys: { all: number; usable: number };
  /** Recovery codes that were not used. */
  codesLeft: number;
  /** Whether the recovery code that was given is one of them. */
  hasCode: boolean;
  /** The fingerprints of callers that have logged in with the factor lately. */
  knownCallers: readonly string[];
}

/** A TOTP on record. */
export interface TotpRecord {
  id: number;
  sealed: SealedSecret;
  /** The step of the last code that was used; 0 for none. */
  lastStep: number;
}

/** A caller, for a change of its factors: what is checked again at the effect. */
export interface FactorCaller extends CallerKey {
  withFactor: boolean;
  /** When its session was opened, in milliseconds since 1970. */
  createdAt: number;
  /** If the account has a factor, its session must have been opened with one, and not before (ms). */
  openedSince: number;
}

/**
 * The second factors. Every change is one commit under the lock of the user's row, taken before the factor's. Every
 * method fails with AuthError('unavailable') when the database is away, and each change also with `rate_limited` as
 * `Lanes.run`.
 */
export interface FactorStore {
  /**
   * @param codeHash of a recovery code that is given.
   * @returns null if there is no such account.
   */
  findAccount(userId: number, codeHash?: Uint8Array): Promise<SecondStepAccount | null>;

  /** null if there is no such account. */
  list(userId: number): Promise<FactorList | null>;

  /**
   * Sets a TOTP up for the caller's session, in place of one that was not confirmed.
   * @param passwordVersion of the password that the caller has proved to know.
   * @throws AuthError `invalid_token` as `lockCaller`, `login_too_old`, `invalid_credentials` (the password was changed
   * meanwhile), `email_not_verified` (with EMAIL_VERIFICATION)
   */
  setUp(
    caller: FactorCaller,
    totp: { sealed: SealedSecret; createdAt: number; passwordVersion: number },
  ): Promise<number>;

  /** The TOTP that this session has set up and not confirmed; null if there is none. */
  findUnconfirmed(key: TokenKey): Promise<TotpRecord | null>;

  /**
   * Confirms the TOTP that this session has set up, in place of the earlier one. The account's first factor brings
   * recovery codes.
   * @returns whether the recovery codes were stored, since it is the account's first factor; null if it is no longer
   * there, or was confirmed already.
   * @throws AuthError `invalid_token`, `login_too_old`, `email_not_verified`
   */
  confirm(
    caller: FactorCaller,
    confirmation: { factorId: number; step: number; at: number; codeHashes: readonly Uint8Array[] },
  ): Promise<{ isFirst: boolean } | null>;

  /**
   * Replaces the recovery codes.
   * @returns false if the account has no factor.
   * @throws AuthError as `setUp`, but for `email_not_verified`
   */
  replaceCodes(
    caller: FactorCaller,
    codes: { codeHashes: readonly Uint8Array[]; passwordVersion: number },
  ): Promise<boolean>;

  /**
   * Removes a confirmed factor. With the last one the recovery codes go, and no device is known by it any more.
   * @returns false if the account has no such factor.
   * @throws AuthError as `replaceCodes`
   */
  remove(caller: FactorCaller, factor: { id: number; passwordVersion: number }): Promise<boolean>;

  /**
   * Removes all factors and recovery codes of an account, and ends all its tokens with the reason `admin`, in one commit:
   * the way out for somebody who has lost them.
   * @param at milliseconds since 1970.
   * @returns how many factors are gone, and what ended, as `TokenStore.revokeAll`; null if there is no such account.
   */
  removeAll(
    key: AccountKey,
    at: number,
  ): Promise<{ userId: number; factors: number; ended: TokenRecord[]; before: number | null } | null>;
}
