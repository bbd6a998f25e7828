/** What proves the second step of a login. */
export const SECOND_STEPS = ['totp', 'recovery_code'] as const;
export type SecondStep = (typeof SECOND_STEPS)[number];

/** What the second step of a login takes, and until when. */
export interface SecondStepNeeded {
  loginToken: string;
  methods: readonly SecondStep[];
  /** Milliseconds since 1970. */
  expiresAt: number;
}
