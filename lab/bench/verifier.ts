/**
 * `npm run bench:verifier`: what `verify` of @latchkey/verifier takes with and without its cache of tokens, and the
 * memory of a cached token, also with as many roles as there may be. Against the fake Latchkey of the tests, because nothing is asked while the feed works.
 * `--json`: one line of JSON.
 */
import { createVerifier } from '@latchkey/verifier';
import { parseArgs } from 'node:util';
import { collectGarbage } from '../../test/support/collect-garbage.ts';
import { fakeLatchkey } from '../../packages/verifier/test/fake-latchkey.ts';
import { print, reportText, sourceText, spread, thisMachine } from '../table.ts';
import { sampleOf } from './statistics.ts';

const ROUNDS = 15;
const TOKENS = 2000;
/** For the memory. */
const MANY = 10_000;

const { values: flags } = parseArgs({ options: { json: { type: 'boolean', default: false } } });
const endings: (() => unknown)[] = [];
const fake = await fakeLatchkey({ teardown: (end) => endings.push(end) });
const latchkey = { issuer: fake.url, audience: 'latchkey', client: fake.client };
const without = createVerifier({ ...latchkey, tokenCache: { size: 0 } });
const cached = createVerifier({ ...latchkey, tokenCache: { bytes: Number.MAX_SAFE_INTEGER } });
await Promise.all([without.ready(), cached.ready()]);
const signed = (claims: object) =>
  Promise.all(Array.from({ length: MANY }, (_, i) => fake.sign({ sid: i + 1, ...claims })));
const tokens = await signed({});

/** Microseconds a token, one after another. Each is a new string, as from a request. */
async function time(verifier: typeof cached): Promise<number> {
  const received = tokens.slice(0, TOKENS).map((token) => Buffer.from(token).toString());
  const since = performance.now();
  for (const token of received) await verifier.verify(token);
  return ((performance.now() - since) * 1000) / TOKENS;
}

/** Bytes of each of these tokens in a new cache. */
async function memory(some: readonly string[]) {
  const verifier = createVerifier({ ...latchkey, tokenCache: { bytes: Number.MAX_SAFE_INTEGER } });
  await verifier.ready();
  await collectGarbage();
  const before = process.memoryUsage().heapUsed;
  for (const token of some) await verifier.verify(token);
  await collectGarbage();
  const bytes = (process.memoryUsage().heapUsed - before) / MANY;
  await verifier.close();
  return { characters: some[0]?.length ?? 0, bytes };
}

const [uncachedTimes, cachedTimes]: [number[], number[]] = [[], []];
for (let round = 0; round < ROUNDS; round++) {
  uncachedTimes.push(await time(without));
  cachedTimes.push(await time(cached));
}
const roles = Array.from({ length: 32 }, (_, i) => `role-${i}`);
const result = {
  date: new Date().toISOString(),
  machine: thisMachine(),
  micros: { uncached: sampleOf(uncachedTimes), cached: sampleOf(cachedTimes) },
  memory: [await memory(tokens), await memory(await signed({ roles }))],
};
const tables = [
  {
    title: 'verify, microseconds of a token',
    head: ['', 'µs'],
    rows: [
      ['without the cache', spread(result.micros.uncached, 1)],
      ['cached', spread(result.micros.cached, 1)],
    ],
  },
  {
    title: 'Memory of a cached token',
    head: ['characters', 'bytes'],
    rows: result.memory.map(({ characters, bytes }) => [characters, bytes]),
  },
];
const source = sourceText(result.date, result.machine, `ES256, medians of ${ROUNDS} rounds`);
await print(flags.json, result, reportText(tables, [], source));

await Promise.all([without.close(), cached.close()]);
for (const end of endings) await end();
