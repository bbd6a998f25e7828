import type { ReaderFacts } from '../../src/domain/enforcement/ports.ts';

/** Of a reader that confirms its position, and says nothing else of itself. */
export const NO_FACTS: ReaderFacts = {
  instance: null,
  software: null,
  version: null,
  audience: null,
  maxStaleness: null,
  whenStale: null,
  keys: [],
};
