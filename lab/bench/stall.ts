import { readFileSync } from 'node:fs';
import { rememberedTokens } from '../../src/domain/sizing/remembered-tokens.ts';
import { makeIdentityPacking } from '../../src/http/identity-packing.ts';
import { makeVerifiedCredentials } from '../../src/http/verified-credentials.ts';
import { fixed, type Table } from '../table.ts';
import type { Check } from './document.ts';
import { limit } from './settings.ts';

/** More memory than this makes no replica remember more tokens. */
const PLENTY = 64 * 1024 ** 3;
/** Tokens between two looks at the clock. A system call a token would count more than the tokens. */
const TOGETHER = 100;

export interface StallReport {
  tokens: number;
  /** Milliseconds for which the event loop stood still at most, in each fill. */
  longest: number[];
}

/** Fills the largest cache of verified tokens, again and again. */
export function measureStall({ fills }: { fills: number }): StallReport {
  const tokens = rememberedTokens(PLENTY, 0);
  const cache = makeVerifiedCredentials(tokens, makeIdentityPacking());
  const longest = Array.from({ length: fills }, (_, fill) => {
    let most = 0;
    let before = busyTime();
    for (let i = fill * tokens; i < (fill + 1) * tokens; i++) {
      cache.add(`a-token-of-${i}`, {
        userId: i,
        tokenId: i,
        generation: 2 ** 50 + i,
        expiresAt: i,
        acr: null,
        authTime: i,
        type: 'access',
      });
      if (i % TOGETHER > 0) continue;
      const now = busyTime();
      most = Math.max(most, now - before);
      before = now;
    }
    return most;
  });
  return { tokens, longest };
}

/** What belongs to the cache returns with each fill, so the shortest counts: the machine may do other things besides. */
export function stallCheck({ longest }: StallReport): Check {
  const [value, maximum] = [Math.min(...longest), limit('BENCH_MAX_STALL')];
  return {
    setting: 'BENCH_MAX_STALL',
    what: 'ms that filling the largest cache stops the event loop',
    value,
    limit: maximum,
    isMet: value <= maximum,
  };
}

export function stallTable({ tokens, longest }: StallReport): Table {
  return {
    title: `Longest stops of the event loop while ${tokens.toLocaleString('en-US')} tokens are remembered`,
    head: ['fill', 'ms'],
    rows: longest.map((most, i) => [i + 1, fixed(most, 1)]),
  };
}

/** Milliseconds for which the main thread has run. Other processes do not count, where the system tells. */
function busyTime(): number {
  try {
    return Number(readFileSync('/proc/self/schedstat', 'latin1').split(' ')[0]) / 1e6;
  } catch {
    return performance.now();
  }
}
