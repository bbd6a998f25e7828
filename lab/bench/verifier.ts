/**
 * `npm run bench:verifier`: what `verify` of @latchkey/verifier takes with and without its cache of tokens, and the
 * memory of a cached token, also with as many roles as there may be. Against the fake Latchkey of the tests, because nothing is asked while the feed works.
 */
import { createVerifier } from '@latchkey/verifier';
import { availableParallelism, cpus } from 'node:os';
import { collectGarbage } from '../../test/support/collect-garbage.ts';
import { fakeLatchkey } from '../../test/support/fake-latchkey.ts';
import { sampleOf } from './statistics.ts';

const ROUNDS = 15;
const TOKENS = 2000;
/** For the memory. */
const MANY = 10_000;

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

function line(name: string, times: number[]): string {
  const { median, low, high } = sampleOf(times);
  return `${name}: ${median.toFixed(1)} µs (quartiles ${low.toFixed(1)} and ${high.toFixed(1)})\n`;
}

/** Of these tokens in a new cache. */
async function memory(some: readonly string[]): Promise<string> {
  const verifier = createVerifier({ ...latchkey, tokenCache: { bytes: Number.MAX_SAFE_INTEGER } });
  await verifier.ready();
  await collectGarbage();
  const before = process.memoryUsage().heapUsed;
  for (const token of some) await verifier.verify(token);
  await collectGarbage();
  const bytes = (process.memoryUsage().heapUsed - before) / MANY;
  await verifier.close();
  return `memory: ${bytes.toFixed(0)} bytes for a cached token of ${some[0]?.length} characters\n`;
}

const [uncachedTimes, cachedTimes]: [number[], number[]] = [[], []];
for (let round = 0; round < ROUNDS; round++) {
  uncachedTimes.push(await time(without));
  cachedTimes.push(await time(cached));
}
process.stdout.write(
  `Node ${process.version}, ${availableParallelism()} cores, ${cpus()[0]?.model ?? 'unknown'}, ES256, ${ROUNDS} rounds\n` +
    line('without the cache', uncachedTimes) +
    line('cached', cachedTimes) +
    (await memory(tokens)) +
    (await memory(await signed({ roles: Array.from({ length: 32 }, (_, i) => `role-${i}`) }))),
);

await Promise.all([without.close(), cached.close()]);
for (const end of endings) await end();
