import type { FileHandle } from 'node:fs/promises';
import { fromBase32 } from '../../domain/factors/totp.ts';
import { MOST_SECRET_BITS } from '../../infra/crypto/factor-keys.ts';
import type { JsonObject, ListForm, OpenList } from './export-file.ts';

/** An account as another system's export has it. Nothing is checked yet, because a file may hold anything. */
export interface SourceAccount {
  /** Text, or a number. */
  id: unknown;
  username?: unknown;
  /** The first that Latchkey takes, and that does not hold the address. */
  names: readonly unknown[];
  email: unknown;
  /** True only where the source says so. */
  emailVerified?: boolean;
  /** Whatever `password_hash` takes. Null or '' for a user without a password. */
  passwordHash: unknown;
  /** Text, or milliseconds since 1970. */
  createdAt?: unknown;
  roles?: readonly unknown[];
  disabled?: boolean;
  /** Every second factor. Undefined if the export says nothing of them. */
  factors: readonly Factor[] | undefined;
  /** Why a password that the user has there does not come. */
  withoutPassword?: string;
  /** What the operator should know besides. */
  notes?: readonly string[];
}

/** The key of an app that makes codes of 6 digits in 30 s by SHA-1, or anything else. */
export type Factor = Uint8Array | 'other';

/** What an account becomes, or why it is left out. */
export type ReadAccount = (record: JsonObject) => SourceAccount | { leftOut: string };

/** A system whose exports can be read. */
export interface System extends ListForm {
  /** What `--with` takes; undefined for systems whose export says all. */
  with?: { what: string; isRequired: boolean };
  /** Where the operator finds who has a second factor; undefined if every export says it. */
  factorList?: string;
  /** @param file of `--with`. @throws CommandError if it is not what `with` says, or the list is none of accounts alone. */
  open(file: FileHandle | undefined, list: OpenList): Promise<ReadAccount>;
}

/** Characters of base32 for the longest secret that the import takes, with room for spaces and padding. */
const LONGEST_BASE32 = 2 * Math.ceil(MOST_SECRET_BITS / 5);

// A key or text of a megabyte would take seconds to encode or decode.

/** The key in a base32 text. @returns null for none, or for one that is too long. */
export function keyIn(text: string): Uint8Array | null {
  return text.length > LONGEST_BASE32 ? null : fromBase32(text);
}

/** The key that is a text itself. @returns null for one that is too long. */
export function keyOf(text: string): Uint8Array | null {
  return text.length * 8 > MOST_SECRET_BITS ? null : Buffer.from(text);
}

/** A name of several parts. */
export function spoken(...parts: unknown[]): string {
  return parts.filter((part) => typeof part === 'string' && part.trim() !== '').join(' ');
}
