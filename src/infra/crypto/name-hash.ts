import { createHmac } from 'node:crypto';
import type { KeyRing } from '../../domain/access-tokens/ports.ts';
import { spellingsOf } from '../../domain/address.ts';
import { skeletonOf } from '../../domain/users/confusables.ts';
import type { ChangedNames } from '../../domain/users/ports.ts';
import { deriveKey, followSecrets } from './refresh-secrets.ts';

/** The hashes under which names may be reserved, each with the field that is taken then. */
export type NameHashes = ['username' | 'email', string][];

/**
 * Hashes the names of deleted accounts. Keyed, so that a copy of the database does not reveal who had an account.
 * @param secret any secret that all replicas share.
 */
export function makeNameHash(secret: Buffer) {
  const key = deriveKey(secret, 'name hash');
  const hash = (text: string) => createHmac('sha256', key).update(text).digest('base64url');
  return function nameHash({ username, email }: Pick<ChangedNames, 'username' | 'email'>): NameHashes {
    return [
      // All names that look alike are reserved together.
      ...(username === undefined ? [] : [['username', hash(`username ${skeletonOf(username)}`)] as const]),
      ...(email === undefined
        ? []
        : spellingsOf(email).map((spelling) => ['email', hash(`email ${spelling}`)] as const)),
    ].map(([field, text]) => [field, text]);
  };
}

export type NameHash = ReturnType<typeof makeNameHash>;

/** The name hashes under the newest refresh secret, and under each secret in use. */
export interface NameHashing {
  newest: NameHash;
  each: NameHash;
}

export function followNameHash(keyRing: KeyRing): NameHashing {
  return hashingWith(followSecrets(keyRing, makeNameHash).all);
}

/** @param secrets the newest first, at least one. */
export function nameHashingOf(secrets: Buffer[]): NameHashing {
  const all = secrets.map(makeNameHash);
  return hashingWith(() => all);
}

function hashingWith(all: () => readonly NameHash[]): NameHashing {
  return {
    newest: (names) => all()[0]?.(names) ?? [],
    each: (names) => all().flatMap((hash) => hash(names)),
  };
}
