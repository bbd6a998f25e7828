import { randomUUID } from 'node:crypto';
import { makeMemoryRevocationFeed } from '../../../src/infra/memory/revocation-feed.ts';
import { KEPT, revocationFeedContract } from '../../contract/revocation-feed.ts';
import { UNOBSERVED } from '../../support/unobserved.ts';

revocationFeedContract('memory', () => {
  let now = 0;
  const feed = makeMemoryRevocationFeed({
    newEpoch: randomUUID,
    now: () => now,
    kept: KEPT,
    observe: UNOBSERVED,
  });
  const pass = (seconds: number) => {
    now += seconds * 1000;
    return Promise.resolve();
  };
  return { feed, other: feed, pass };
});
