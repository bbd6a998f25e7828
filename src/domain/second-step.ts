/** The kinds of second factors. */
export const FACTOR_TYPES = ['totp', 'passkey'] as const;
export type FactorType = (typeof FACTOR_TYPES)[number];

/** What a user types as the second step of a login. */
export const CODES = ['totp', 'recovery_code'] as const;
export type CodeKind = (typeof CODES)[number];

/**
 * What proves that a login was more than a password: a code as its second step, or a passkey in place of
 * both.
 */
export const SECOND_STEPS = [...CODES, 'passkey'] as const;
export type SecondStep = (typeof SECOND_STEPS)[number];

/** What the second step of a login takes, and until when. */
export interface SecondStepNeeded {
  loginToken: string;
  methods: readonly SecondStep[];
  /** Milliseconds since 1970. */
  expiresAt: number;
}
