/** Tokens whose signature and claims were verified, with what is in them. Their session is checked at every use. */
export interface VerifiedTokens<Identity> {
  get(token: string): Identity | undefined;
  add(token: string, identity: Identity): void;
}

/** Entries of one generation. Two of them hold at most twice as many tokens. */
const CAPACITY = 10_000;

/**
 * A cache by the token itself. A hash of it as the key, as fast-jwt's cache has, costs more than all other steps of a
 * lookup. When the young generation is full, it becomes the old one, and the former old one is dropped. A token in use
 * moves to the young one, so a token of a busy client stays.
 */
export function makeVerifiedTokens<Identity>(capacity = CAPACITY): VerifiedTokens<Identity> {
  let young = new Map<string, Identity>();
  let old = new Map<string, Identity>();

  function keep(token: string, identity: Identity): void {
    if (young.size >= capacity) {
      old = young;
      young = new Map();
    }
    young.set(copyOf(token), identity);
  }

  return {
    get(token) {
      const found = young.get(token);
      if (found !== undefined) return found;
      const older = old.get(token);
      if (older !== undefined) keep(token, older);
      return older;
    },
    add: keep,
  };
}

/** A part of a string keeps all of it in memory, and the header around a token may be padded to 16 KiB. */
function copyOf(token: string): string {
  return Buffer.from(token, 'latin1').toString('latin1');
}
