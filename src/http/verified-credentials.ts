import { hash } from 'node:crypto';

/**
 * Tokens and headers that were verified, with the identity in them. Whether it is still good is checked at every use.
 */
export interface VerifiedCredentials<Identity> {
  get(credential: string): Identity | undefined;
  add(credential: string, identity: Identity): void;
  clear(): void;
}

/** How an identity is kept: as numbers, which no garbage collection visits, or else as the object that it is. */
export interface Packing<Identity> {
  /** Writes NUMBERS numbers from `at` on. @returns whether they say all of it. */
  pack: (identity: Identity, into: Float64Array, at: number) => boolean;
  unpack: (from: Float64Array, at: number) => Identity;
  /** Bytes of an identity that is kept as an object. */
  sizeOf: (identity: Identity) => number;
}

/** Numbers of an identity. */
const NUMBERS = 7;
/** SHA-256. */
const DIGEST = 32;
/** With twice as many slots as entries, a look-up compares one digest or two. */
const SLOTS = 2;
/** Bytes of an entry. Two generations take twice as many for each credential that is surely remembered. */
export const ENTRY_BYTES = DIGEST + NUMBERS * 8 + SLOTS * 4;

interface Generation<Identity> {
  /** A hash table: the number of an entry, counted from 1, at its digest's place or the next free one. */
  slots: Int32Array;
  digests: Uint8Array;
  numbers: Float64Array;
  /** Identities that are not packed, by the number of their entry. */
  objects: Map<number, Identity>;
  entries: number;
  /** What is taken of the capacity. An entry with an object counts as several. */
  weight: number;
}

/**
 * A cache by the credential's SHA-256, because the digest is shorter than a token. By a token's signature alone, a
 * changed payload would pass. Two generations of the given capacity: when the young one is full, it becomes the old one,
 * whose entries are dropped. A credential in use moves to the young one, so that of a busy client stays.
 *
 * Flat arrays take the memory that ENTRY_BYTES says, outside of the heap, and as they fill. A Map of as many objects
 * stops the event loop when it grows, and makes each garbage collection longer (docs/adr/0027-verified-tokens-are-remembered.md).
 */
export function makeVerifiedCredentials<Identity>(
  capacity: number,
  { pack, unpack, sizeOf }: Packing<Identity>,
): VerifiedCredentials<Identity> {
  let young = makeGeneration<Identity>(capacity);
  let old = makeGeneration<Identity>(capacity);

  function read({ numbers, objects }: Generation<Identity>, entry: number): Identity {
    return objects.get(entry) ?? unpack(numbers, entry * NUMBERS);
  }

  function keep(digest: string, identity: Identity): void {
    let isPacked = pack(identity, young.numbers, young.entries * NUMBERS);
    const weight = isPacked ? 1 : 1 + sizeOf(identity) / ENTRY_BYTES;
    if (young.weight + weight > capacity) {
      [young, old] = [old, young];
      empty(young);
      isPacked = pack(identity, young.numbers, 0);
    }
    const entry = young.entries++;
    young.weight += weight;
    if (!isPacked) young.objects.set(entry, identity);
    for (let i = 0; i < DIGEST; i++) young.digests[entry * DIGEST + i] = digest.charCodeAt(i);
    young.slots[findSlot(young, digest)] = entry + 1;
  }

  return {
    get(credential) {
      const digest = digestOf(credential);
      const entry = findEntry(young, digest);
      if (entry !== -1) return read(young, entry);
      const older = findEntry(old, digest);
      if (older === -1) return undefined;
      const identity = read(old, older);
      keep(digest, identity);
      return identity;
    },
    add(credential, identity) {
      const digest = digestOf(credential);
      if (findEntry(young, digest) === -1) keep(digest, identity);
    },
    clear() {
      empty(young);
      empty(old);
    },
  };
}

function makeGeneration<Identity>(capacity: number): Generation<Identity> {
  // One more: `pack` writes before the generation is known to be full.
  const entries = capacity + 1;
  return {
    slots: new Int32Array(entries * SLOTS),
    digests: new Uint8Array(entries * DIGEST),
    numbers: new Float64Array(entries * NUMBERS),
    objects: new Map(),
    entries: 0,
    weight: 0,
  };
}

function empty(generation: Generation<unknown>): void {
  generation.slots.fill(0);
  generation.objects.clear();
  generation.entries = 0;
  generation.weight = 0;
}

/** 32 characters, a byte each. */
function digestOf(credential: string): string {
  return hash('sha256', credential, 'binary');
}

/** The entry with this digest, counted from 0; -1 if there is none. */
function findEntry(generation: Generation<unknown>, digest: string): number {
  return (generation.slots[findSlot(generation, digest)] ?? 0) - 1;
}

/** The slot with this digest, or the free one where it belongs. Half of the slots are free, so there is one. */
function findSlot({ slots, digests }: Generation<unknown>, digest: string): number {
  let slot = Math.floor((firstBytesOf(digest) / 2 ** 32) * slots.length);
  for (;;) {
    const entry = slots[slot] ?? 0;
    if (entry === 0 || isAt(digests, (entry - 1) * DIGEST, digest)) return slot;
    slot = (slot + 1) % slots.length;
  }
}

function firstBytesOf(digest: string): number {
  const high = (digest.charCodeAt(0) << 8) | digest.charCodeAt(1);
  return high * 2 ** 16 + ((digest.charCodeAt(2) << 8) | digest.charCodeAt(3));
}

function isAt(digests: Uint8Array, start: number, digest: string): boolean {
  for (let i = 0; i < DIGEST; i++) if (digests[start + i] !== digest.charCodeAt(i)) return false;
  return true;
}
