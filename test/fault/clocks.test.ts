import { setTimeout } from 'node:timers/promises';
import { test, type Test } from 'tap';
import { testFolder } from '../support/folder.ts';
import { claimsOf, type Pair } from '../support/client.ts';
import { clockAhead } from '../support/faketime.ts';
import { logOutOver, refreshOver, signUpOver, verifyOver } from '../support/over-http.ts';
import { testDatabase } from '../support/postgres.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { ready, startService } from '../support/service.ts';
import { toolsMissing } from '../support/tools.ts';

const skip = { skip: redisMissing || toolsMissing('faketime', 'env') };

/** Two replicas; the second has a wrong wall clock. */
async function twoReplicas(t: Test, ahead: number, env: Record<string, string> = {}) {
  const { url } = await testDatabase(t);
  const redis = testRedis(t);
  const dataDir = testFolder(t);
  const shared = { DATABASE_URL: url, REDIS_URL: redis.url, REDIS_PREFIX: redis.prefix, DATA_DIR: dataDir };
  const right = await startService(t, { ...shared, ...env });
  const wrong = await startService(t, { ...shared, ...env, ...clockAhead(ahead) });
  await Promise.all([ready(right), ready(wrong)]);
  const offset = Date.parse((await fetch(wrong.url)).headers.get('date') ?? '') - Date.now();
  t.ok(Math.abs(offset / 1000 - ahead) < 60, `its clock says ${Math.round(offset / 1000)} s`);
  return [right.url, wrong.url] as const;
}

async function refreshed(url: string, { refresh_token }: Pair): Promise<Pair> {
  const response = await refreshOver(url, refresh_token);
  if (response.status !== 200) throw new Error(`no pair: ${response.status}`);
  return (await response.json()) as Pair;
}

for (const ahead of [5, -5, 300, -300]) {
  test(`clocks ${ahead} s apart: a session of one replica works and ends on both`, skip, async (t) => {
    const [right, wrong] = await twoReplicas(t, ahead);
    for (const [here, there] of [
      [right, wrong],
      [wrong, right],
    ] as const) {
      let pair = await signUpOver(here);
      for (let i = 0; i < 6; i++) {
        const previous = pair;
        pair = await refreshed(i % 2 ? here : there, pair);
        t.equal(await verifyOver(here, pair.access_token), 200);
        t.equal(await verifyOver(there, pair.access_token), 200);
        t.equal(await verifyOver(there, previous.access_token), 401, 'superseded');
        // A retry within the window, by Redis's clock: every replica returns the same pair.
        const again = await refreshed(there, previous);
        t.strictSame(claimsOf(again.access_token), claimsOf(pair.access_token));
      }
      t.equal(await logOutOver(there, pair.access_token), 200);
      // Long enough for the background tasks of both replicas to run.
      for (let i = 0; i < 4; i++) {
        t.equal(await verifyOver(here, pair.access_token), 401);
        t.equal((await refreshOver(here, pair.refresh_token)).status, 401);
        await setTimeout(500);
      }
    }
  });
}

test(
  'a clock ahead by more than ACCESS_TOKEN_TTL refuses access tokens, and signs no user out',
  skip,
  async (t) => {
    const [right, wrong] = await twoReplicas(t, 300, { ACCESS_TOKEN_TTL: '200' });
    const pair = await signUpOver(right);
    t.equal(await verifyOver(right, pair.access_token), 200);
    t.equal(await verifyOver(wrong, pair.access_token), 401);
    const next = await refreshed(wrong, pair);
    t.equal(await verifyOver(right, next.access_token), 200);
  },
);

test(
  'a clock that is behind accepts an access token longer by that much, unless it is revoked',
  skip,
  async (t) => {
    const [right, wrong] = await twoReplicas(t, -300, { ACCESS_TOKEN_TTL: '10' });
    const [pair, other] = [await signUpOver(right), await signUpOver(right)];
    t.equal(await logOutOver(right, other.access_token), 200);
    await setTimeout(16_000); // ACCESS_TOKEN_TTL and the 5 s that clocks may differ.
    t.equal(await verifyOver(right, pair.access_token), 401);
    t.equal(await verifyOver(wrong, pair.access_token), 200);
    t.equal(await verifyOver(wrong, other.access_token), 401, 'revoked');
  },
);
