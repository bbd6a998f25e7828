import { randomBytes, randomInt } from 'node:crypto';
import { makeCallerHash } from '../../src/infra/crypto/keyed-hashes.ts';

const callerHash = makeCallerHash(randomBytes(32));

/** The fingerprint of some caller. */
export function aFingerprint(): string {
  const address = Array.from({ length: 4 }, () => randomInt(1, 255));
  return callerHash(
    address,
    'Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:145.0) Gecko/20100101 Firefox/145.0',
  );
}

/** The same items in random order. */
export function shuffled<Item>(items: readonly Item[]): Item[] {
  return items
    .map((item) => ({ item, at: Math.random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item);
}
