import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { entriesOf, makePeersDocument, readPeersDocument, type PeersDocument } from './document.ts';
import { DOCS, PAGE, pageWith } from '../../table.ts';
import type { BenchedServer, Entrant, PeerOperation } from './servers.ts';
import { committedPeers, peerFigures, peersPicture, peersText } from './tables.ts';

const WORK = { commands: { GET: 3 }, transactions: 0 };

function entrant(name: string, perSecond: readonly number[], serverCpu = 1): Entrant {
  const server = { name, version: '1.2.3' } as BenchedServer;
  const offer = { request: 'POST /token', signatures: 'none', expected: '', workload: { callers: [] } };
  const rounds = perSecond.map((each) => ({
    perSecond: each,
    micros: 1e6 / each,
    serverCpu,
    generatorCpu: 0.5,
  }));
  return { server, offer, rounds };
}

function documentOf(operation: PeerOperation, entrants: readonly Entrant[], isJudged = true): PeersDocument {
  const works = entrants.map(() => WORK);
  return makePeersDocument(
    {
      settings: { connections: 64, rounds: 3, seconds: 1 },
      loadBefore: 0.5,
      stores: 'PostgreSQL 15',
      missing: ['Glewlwyd is not installed'],
      entries: entriesOf(operation, entrants, works),
    },
    isJudged,
  );
}

test('a factor is taken within each round, and its median is held against the goal', (t) => {
  const met = documentOf('refresh', [
    entrant('Latchkey', [8000, 4000, 8800]),
    entrant('oidc-provider', [2000, 1000, 2000]),
  ]);
  t.strictSame(met.entries[1]?.factors, [4, 4, 4.4]);
  t.strictSame(met.entries[1]?.cpuFactors, [4, 4, 4.4]);
  t.strictSame(met.entries[0]?.factors, []);
  t.match(met.limits, [{ setting: 'BENCH_MIN_PEER_REFRESH', value: 4, limit: 3, isMet: true }]);
  t.match(peersText(met), /goal met: refresh, times oidc-provider’s POST \/token: 4\.0, at least 3/);

  const missed = documentOf('refresh', [entrant('Latchkey', [5900]), entrant('oidc-provider', [2000])]);
  t.match(missed.limits, [{ value: 2.95, isMet: false }]);
  t.match(peersText(missed), /goal MISSED: refresh/);
  t.end();
});

test('each goal names the peer that it is about', (t) => {
  const peers = [
    'better-auth',
    '@better-auth/oauth-provider',
    'oidc-provider',
    '@fastify/session',
    'Glewlwyd',
  ];
  const entrants = [entrant('Latchkey', [1]), ...peers.map((name) => entrant(name, [1]))];
  const goals = (['verify', 'introspection', 'refresh'] as const).map((operation) =>
    documentOf(operation, entrants).limits.map(({ what, limit }) => [what, limit]),
  );
  t.strictSame(goals, [
    [['verify, times better-auth’s POST /token', 20]],
    [['introspection, times oidc-provider’s POST /token', 3.5]],
    [['refresh, times oidc-provider’s POST /token', 3]],
  ]);
  t.strictSame(documentOf('verify', entrants, false).limits, [], 'a smoke run is not judged');
  t.end();
});

test('the report says what a request costs, what is missing and what is doubtful', (t) => {
  const text = peersText(
    documentOf('verify', [
      entrant('Latchkey', [20_000, 20_000, 20_000]),
      entrant('better-auth', [500, 1000, 2000], 0.4),
    ]),
  );
  t.match(
    text,
    /verify \| better-auth \| 1\.2\.3 \| 1,000 \(750–1,500\) \| 1,000 \| 20\.0 \(15\.0–30\.0\) \| 20\.0 \(15/,
  );
  t.match(text, /verify \| better-auth \| `POST \/token` \| 3 GET \| 0 \| none/);
  t.match(text, '- Glewlwyd is not installed');
  t.match(text, 'better-auth, verify: the server got 0.40 of a core: the machine was busy');
  t.match(text, 'better-auth, verify: noisy, the middle half of the rounds spans 75%');
  t.notMatch(text, /- Latchkey, verify/);
  t.match(text, 'load average before the run: 0.50');
  t.end();
});

test('figures of peers survive the file, and those of another version are left out', (t) => {
  const document = documentOf('verify', [entrant('Latchkey', [3]), entrant('better-auth', [9])]);
  t.strictSame(readPeersDocument(JSON.stringify(document)), document);
  t.equal(document.entries[1]?.factors[0], 0.33333);
  t.equal(readPeersDocument(JSON.stringify({ ...document, version: 0 })), null);
  t.end();
});

test('the picture of the peers has the committed figures', (t) => {
  const committed = committedPeers();
  t.equal(committed && peersPicture(committed), readFileSync(join(DOCS, 'images/peers.svg'), 'utf8'));
  t.end();
});

test('docs/performance.md shows docs/benchmarks-peers.json', async (t) => {
  const page = readFileSync(PAGE, 'utf8');
  t.equal(await pageWith(page, peerFigures(committedPeers())), page);
  const other = documentOf('verify', [entrant('Latchkey', [40]), entrant('better-auth', [2])]);
  const changed = await pageWith(page, peerFigures(other));
  t.match(changed, /\| verify +\| better-auth +\| 1\.2\.3/);
  t.equal(await pageWith(changed, peerFigures(committedPeers())), page, 'nothing else has changed');
  await t.rejects(pageWith('# No place\n', peerFigures(null)), /no place for figures/);
});
