import { lengthOf } from '../identifiers.ts';
import type { Right } from '../rights.ts';

/** The record of a registered service. It holds only hashes of the secrets. */
export interface ServiceClient {
  clientId: string;
  /** Its name for operators; unique. */
  name: string;
  secretHash: Uint8Array;
  /** Hash of the previous secret, also accepted until the rotation is finished; null if there is none. */
  previousHash: Uint8Array | null;
  /** Milliseconds since 1970. */
  createdAt: number;
  /** Milliseconds since 1970; null before the first rotation. */
  rotatedAt: number | null;
  /** What it may do. */
  rights: readonly Right[];
  /** The `aud` of tokens that are exchanged for it; unique. null for none. It never changes. */
  audience: string | null;
}

/** A client has two secrets already: another one would replace a secret that may be in use. */
export class TwoSecretsError extends Error {
  override name = 'TwoSecretsError';
}

/** A service that has authenticated with its secret. */
export interface ServiceIdentity {
  clientId: string;
  name: string;
  /** Of the secret that it authenticated with. */
  secretHash: Uint8Array;
  audience: string | null;
}

/**
 * Characters that a terminal does not show: controls, lone surrogates, unassigned and private ones, line separators.
 */
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/u;

/** Trimmed and NFC; 1 to 64 printable characters. @returns null for anything else. */
export function parseClientName(raw: string): string | null {
  const name = raw.normalize('NFC').trim();
  return name === '' || lengthOf(name) > 64 || UNPRINTABLE.test(name) ? null : name;
}
