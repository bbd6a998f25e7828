import { randomUUID } from 'node:crypto';
import { makeMemoryRevocationFeed } from '../../../src/infra/memory/revocation-feed.ts';
import { KEPT, revocationFeedContract } from '../../contract/revocation-feed.ts';

revocationFeedContract('memory', () => {
  let now = 0;
  const feed = makeMemoryRevocationFeed({ newEpoch: randomUUID, now: () => now, kept: KEPT });
  const pass = (seconds: number) => {
    now += seconds * 1000;
    return Promise.resolve();
  };
  return { feed, other: feed, pass };
});
