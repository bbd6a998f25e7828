import { lengthOf } from '../users/identifiers.ts';

/** A service that is registered with us, as it is on record: of its secrets there are only hashes. */
export interface ServiceClient {
  clientId: string;
  /** What operators call it; unique. */
  name: string;
  secretHash: Uint8Array;
  /** Of the secret before, good as well while the service changes over; null where there is none. */
  previousHash: Uint8Array | null;
  /** Milliseconds since 1970. */
  createdAt: number;
  /** Milliseconds since 1970; null before the first rotation. */
  rotatedAt: number | null;
}

/** A client has two secrets already: one more would have to end one that may be in use. */
export class TwoSecretsError extends Error {
  override name = 'TwoSecretsError';
}

/** Who is asking: a service whose secret has been found right. */
export interface ServiceIdentity {
  clientId: string;
  name: string;
  /** Of the secret that was found right. */
  secretHash: Uint8Array;
}

/** Controls, lone surrogates, unassigned and private characters, line separators: what a terminal would not show. */
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/u;

/** Trimmed and NFC; 1 to 64 printable characters. @returns null for anything else. */
export function parseClientName(raw: string): string | null {
  const name = raw.normalize('NFC').trim();
  return name === '' || lengthOf(name) > 64 || UNPRINTABLE.test(name) ? null : name;
}
