import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { QUEUES } from '../../src/domain/metrics/outcomes.ts';
import { ROOT } from '../support/documents.ts';

// It reads the sources, which Stryker rewrites, so it lies outside of the folders that Stryker runs.

/** What else in the domain lives as long as the replica, by file and name, with what bounds it. */
const OTHERS: Record<string, string> = {
  'enforcement/confirm.ts waiting': 'the services of a bounded queue',
  'enforcement/connected.ts ends': 'one each note, for SEEN',
  'enforcement/enforcement.ts followed': 'MOST_OPEN',
  'enforcement/enforcement.ts open': 'MOST_OPEN',
  'enforcement/progress.ts unconfirmed': 'MOST',
  'feed/fan-out.ts following': 'REVOCATION_READERS_MAX',
  'feed/fan-out.ts opening': 'REVOCATION_READERS_MAX',
  'feed/fan-out.ts readers': 'REVOCATION_READERS_MAX',
  'feed/fence.ts waiting': 'MOST_OPEN of those who ask for an enforcement',
  'limits/fair-queue.ts items': 'HASH_QUEUE, MAX_RESET_REQUESTS and LANE_PLACES',
  'limits/fair-queue.ts lines': 'HASH_QUEUE, MAX_RESET_REQUESTS and LANE_PLACES',
  'limits/lanes.ts lanes': 'accounts with a transaction under way, each with LANE_PLACES',
  'limits/limit-attempts.ts inFlight': 'requests in flight, each of which ends with its timeouts',
  'passwords/hash-costs.ts costs': 'the costs of hashes on record, which an import sets',
  'services/directory.ts audiences': 'registered services',
  'services/directory.ts byTrust': 'registered services',
  'services/directory.ts issuers': 'registered services',
  'services/directory.ts listeners': 'made at the start',
  'services/directory.ts services': 'registered services',
  'tokens/renew-changes.ts progress': "Redis's masters",
  'tokens/renewals.ts failures': "Redis's masters",
  'tokens/renewals.ts fulls': "Redis's masters",
  'tokens/renewals.ts running': "Redis's masters",
  'tokens/renewals.ts untold': "Redis's masters",
  'tokens/renewals.ts watches': "Redis's masters",
  'tokens/revoke.ts taken': 'MAX_REVOCATIONS: of each account and token with an open request',
  'tokens/write-behind.ts ended': 'MAX_WRITES: it counts beside what waits',
  'users/new-names.ts skeletons': 'RESERVED_USERNAMES',
};

const DOMAIN = join(ROOT, 'src/domain');
const SOURCES = readdirSync(DOMAIN, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => [file, readFileSync(join(DOMAIN, file), 'utf8')] as const);

test('whatever waits in the domain is a bounded queue, or bounded by something else', (t) => {
  const made = SOURCES.flatMap(([, text]) =>
    text.includes('boundedQueue') ? [...text.matchAll(/queue: '(\w+)'/g)].map(([, name]) => name) : [],
  );
  t.strictSame(made.sort(), [...QUEUES].sort(), 'each queue of the metric is made, once');
  const found = SOURCES.flatMap(([file, text]) =>
    [...text.matchAll(/^(?:export )?function (?:make|with)[^]*?^\}$/gm)].flatMap(([maker]) =>
      [...maker.matchAll(/^ {2}(?:const|let) (\w+).*? = (?:new (?:Map|Set)\b|\[\])/gm)].map(
        ([, name]) => `${file} ${name}`,
      ),
    ),
  );
  t.strictSame(found.sort(), Object.keys(OTHERS).sort());
  t.end();
});
