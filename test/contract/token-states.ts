import { test, type Test } from 'tap';
import type { TokenStateStore } from '../../src/domain/tokens/token-state-store.ts';
import { checkAccessContract } from './token-states/access.ts';
import { lifetimeContract } from './token-states/lifetime.ts';
import { putContract } from './token-states/put.ts';
import { rotateContract } from './token-states/rotate.ts';

/** One implementation, and a way to age its keys. */
export interface StoreUnderTest {
  tokenStates: TokenStateStore;
  /** Lets this many seconds pass for every key with an expiry. */
  pass: (seconds: number) => Promise<void>;
}

/** SESSION_CACHE_TTL of the stores under test, in seconds. */
export const CACHE_TTL = 3600;

export type OpenStore = (t: Test) => StoreUnderTest | Promise<StoreUnderTest>;

/** The contract of every TokenStateStore. @param open returns a separate store for each test. */
export function sessionStateContract(name: string, open: OpenStore, skip: false | string = false): void {
  const contract = (sentence: string, run: (t: Test, store: StoreUnderTest) => Promise<void>) => {
    test(`${name}: ${sentence}`, { skip }, async (t) => {
      await run(t, await open(t));
    });
  };
  rotateContract(contract);
  checkAccessContract(contract);
  putContract(contract);
  lifetimeContract(contract);
}

export type Contract = (sentence: string, run: (t: Test, store: StoreUnderTest) => Promise<void>) => void;
