/**
 * Tokens and headers that were verified, with the identity in them. Whether it is still good is checked at every use.
 */
export interface VerifiedCredentials<Identity> {
  get(credential: string): Identity | undefined;
  add(credential: string, identity: Identity): void;
}

/** Entries of one map. Two maps hold at most twice as many. */
const CAPACITY = 10_000;

/**
 * A cache by the credential itself. A hash of it as the key, as fast-jwt's cache has, costs more than all other steps
 * of a lookup. When the young map is full, it becomes the old one, and the former old one is dropped. A credential in
 * use moves to the young map, so that of a busy client stays.
 */
export function makeVerifiedCredentials<Identity>(capacity = CAPACITY): VerifiedCredentials<Identity> {
  let young = new Map<string, Identity>();
  let old = new Map<string, Identity>();

  function keep(credential: string, identity: Identity): void {
    if (young.size >= capacity) {
      old = young;
      young = new Map();
    }
    young.set(copyOf(credential), identity);
  }

  return {
    get(credential) {
      const found = young.get(credential);
      if (found !== undefined) return found;
      const older = old.get(credential);
      if (older !== undefined) keep(credential, older);
      return older;
    },
    add: keep,
  };
}

/** A part of a string keeps all of it in memory, and the header around a token may be padded to 16 KiB. */
function copyOf(credential: string): string {
  return Buffer.from(credential, 'latin1').toString('latin1');
}
