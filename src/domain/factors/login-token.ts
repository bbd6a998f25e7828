/** For how long a login may take its second step, in milliseconds. */
export const LOGIN_TOKEN_TTL = 300_000;

/**
 * What a login token says: this account's password was right at this time. A change of the password voids it, and so does
 * disabling the account, even if it is enabled again.
 */
export interface PasswordProof {
  userId: number;
  /** How often the password had been changed. */
  passwordVersion: number;
  /** When the account was last enabled again, in milliseconds since 1970; 0 for never. */
  enabledAt: number;
  /** Milliseconds since 1970. */
  issuedAt: number;
}

/**
 * The tokens between the two steps of a login. Stored nowhere: one may be sent again, since each session uses up a proof
 * of its own.
 */
export interface LoginTokens {
  issue(proof: PasswordProof): string;
  /** @returns null if we did not sign it. Its age is not checked. */
  read(token: string): PasswordProof | null;
}
