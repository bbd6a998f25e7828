import type { FactorType } from '../second-step.ts';

/** A confirmed factor, as its owner's list shows it. Times in milliseconds since 1970. */
export interface Factor {
  id: number;
  type: FactorType;
  name: string;
  createdAt: number;
  lastUsedAt: number | null;
}

/** The name of every TOTP: an account has one. */
export const TOTP_NAME = 'Authenticator app';
