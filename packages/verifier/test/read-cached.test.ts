import { test } from 'tap';
import type { VerificationKey } from '../src/key-set.ts';
import { makeReadCached, makeTokenCache } from '../src/token-cache.ts';
import type { VerifiedToken } from '../src/verified-token.ts';
import { invalid } from '../src/verifier-error.ts';
import { aClock } from '../../../test/support/clock.ts';

const KEY = {} as VerificationKey;

/** Tokens whose claims the test chooses; `reads` lists the tokens whose signature was checked. */
function reading(claims: object) {
  const clock = aClock();
  const start = Math.floor(clock.now() / 1000);
  const world = { key: KEY as VerificationKey | undefined, reads: [] as string[], isGood: true };
  const readCached = makeReadCached({
    clock,
    clockTolerance: 5,
    keys: { loaded: () => world.key },
    cache: makeTokenCache({ size: 10, bytes: 100_000 }),
    read(token) {
      world.reads.push(token);
      if (!world.isGood) return Promise.reject(invalid('expired', 'no'));
      const times = Object.fromEntries(
        Object.entries(claims).map(([name, at]) => [name, start + Number(at)]),
      );
      return Promise.resolve({ verified: { claims: times } as unknown as VerifiedToken, kid: 'a', key: KEY });
    },
  });
  return { clock, world, readCached };
}

test('checks the signature once', async (t) => {
  const { world, readCached } = reading({ exp: 900 });
  const first = await readCached('token');
  t.equal(await readCached('token'), first);
  await readCached('another');
  t.strictSame(world.reads, ['token', 'another']);
});

test('refuses values other than text, also those that read as a token', async (t) => {
  const { world, readCached } = reading({ exp: 900 });
  await readCached('token');
  for (const other of [undefined, null, 7, Buffer.from('token'), ['token'], { toString: () => 'token' }])
    await t.rejects(readCached(other as string), { code: 'invalid_token', reason: 'malformed' });
  t.equal(world.reads.length, 1);
});

test('keeps no token that is not good', async (t) => {
  const { world, readCached } = reading({ exp: 900 });
  world.isGood = false;
  for (let i = 0; i < 2; i++)
    await t.rejects(readCached('token'), { code: 'invalid_token', reason: 'expired' });
  t.equal(world.reads.length, 2);
});

test('checks a token again at its expiry, and when the clock is set back before its beginning', async (t) => {
  const { clock, world, readCached } = reading({ exp: 60, nbf: -60 });
  await readCached('token');
  clock.pass(64_000);
  await readCached('token');
  t.equal(world.reads.length, 1, 'within the tolerance');
  clock.pass(1000);
  world.isGood = false;
  await t.rejects(readCached('token'), { code: 'invalid_token', reason: 'expired' });
  t.equal(world.reads.length, 2);
  world.isGood = true;
  await readCached('token');
  clock.pass(-(65_000 + 66_000));
  await readCached('token');
  t.equal(world.reads.length, 4);
});

test('a token without an expiry stays', async (t) => {
  const { clock, world, readCached } = reading({});
  await readCached('token');
  clock.pass(1e12);
  await readCached('token');
  t.equal(world.reads.length, 1);
});

test('checks a token again once its key was removed or replaced', async (t) => {
  const { world, readCached } = reading({ exp: 900 });
  for (const key of [undefined, {} as VerificationKey]) {
    world.key = KEY;
    await readCached('token');
    const before = world.reads.length;
    world.key = key;
    await readCached('token');
    t.equal(world.reads.length, before + 1);
  }
});
