import { test, type Test } from 'tap';
import type { SessionStateStore } from '../../src/domain/sessions/ports.ts';
import { checkAccessContract } from './session-state/access.ts';
import { lifetimeContract } from './session-state/lifetime.ts';
import { putContract } from './session-state/put.ts';
import { rotateContract } from './session-state/rotate.ts';

/** One implementation, and how to let its keys age. */
export interface StoreUnderTest {
  states: SessionStateStore;
  /** Lets so many seconds pass for whatever expires. */
  pass: (seconds: number) => Promise<void>;
}

/** SESSION_CACHE_TTL of the stores under test, in seconds. */
export const CACHE_TTL = 3600;

export type OpenStore = (t: Test) => StoreUnderTest | Promise<StoreUnderTest>;

/** What every SessionStateStore must do. @param open a store of its own for each test. */
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
