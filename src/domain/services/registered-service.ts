import { lengthOf } from '../identifiers.ts';
import type { ServiceBearer } from '../principal.ts';
import type { Right } from '../rights.ts';
import type { ServiceTrust } from './assertion.ts';

/** The record of a registered service. It holds only hashes of the secrets. */
export interface RegisteredService {
  serviceId: string;
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
  /** The `aud` of tokens for it; unique. null for none. It never changes. */
  audience: string | null;
  /** Those in its service tokens. */
  roles: readonly string[];
  /** Its service tokens are good only with this version: from 1 on, and only upwards. */
  version: number;
  /** Milliseconds since 1970; null if it is enabled. */
  disabledAt: number | null;
  /** The workloads that may authenticate as this service. */
  trusts: readonly ServiceTrust[];
}

/** The pairs of issuer and subject of one service. */
export const MAX_TRUSTS = 16;

/** `taken`: another service has this pair. `full`: the service has MAX_TRUSTS. */
export class TrustRefusedError extends Error {
  override name = 'TrustRefusedError';
  readonly reason: 'taken' | 'full';

  constructor(reason: 'taken' | 'full') {
    super(reason);
    this.reason = reason;
  }
}

/** A service has two secrets already: another one would replace a secret that may be in use. */
export class TwoSecretsError extends Error {
  override name = 'TwoSecretsError';
}

/** How a service has authenticated, so that it can be checked again whether that is still good. */
export type Proof =
  | { by: 'secret'; secretHash: Uint8Array }
  | { by: 'assertion'; trust: ServiceTrust }
  | { by: 'token'; token: ServiceBearer };

/** A service that has authenticated. */
export interface ServiceIdentity {
  serviceId: string;
  name: string;
  audience: string | null;
  proof: Proof;
}

/**
 * Characters that a terminal does not show: controls, lone surrogates, unassigned and private ones, line separators.
 */
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/u;

/** Trimmed and NFC; 1 to 64 printable characters. @returns null for anything else. */
export function parseServiceName(raw: string): string | null {
  const name = raw.normalize('NFC').trim();
  return name === '' || lengthOf(name) > 64 || UNPRINTABLE.test(name) ? null : name;
}
