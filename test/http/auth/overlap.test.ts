import { buildTestApp } from '../../support/app.ts';
import { claimsOf, pairOf, refresh, signUp, verify, type Pair } from '../../support/client.ts';
import { refused } from '../../support/problem.ts';
import { onEachStore } from '../../support/stores.ts';

const generationOf = ({ access_token: token }: Pair) => Number(claimsOf(token).gen);

onEachStore('refreshes that overlap', async (t, env) => {
  const trusting = { ...env, TRUST_PROXY: 'loopback' };
  const target = await buildTestApp(t, { env: trusting });
  const from = (address: string, agent = 'Kitchen/1.0') => ({
    'x-forwarded-for': address,
    'user-agent': agent,
  });

  await t.test('twenty at once from one client get the same pair', async (t) => {
    const { refresh_token: token } = await signUp(target);
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => refresh(target, token, from('192.0.2.1'))),
    );
    const pairs = answers.map(pairOf);
    t.equal(new Set(pairs.map(generationOf)).size, 1);
    for (const pair of pairs) t.equal((await verify(target, pair.access_token)).statusCode, 200);
  });

  await t.test('twenty at once from twenty clients get one pair in total', async (t) => {
    const { refresh_token: token } = await signUp(target);
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) => refresh(target, token, from(`192.0.2.${i + 1}`))),
    );
    const granted = answers.filter(({ statusCode }) => statusCode === 200);
    t.equal(granted.length, 1);
    for (const answer of answers) if (answer.statusCode !== 200) refused(t, answer, 503, 'refresh_overlap');
    for (const answer of granted)
      t.equal((await verify(target, pairOf(answer).access_token)).statusCode, 200);
  });

  await t.test('treat a whole /64 as one client, and nothing larger', async (t) => {
    const { refresh_token: token } = await signUp(target);
    const first = pairOf(await refresh(target, token, from('2001:db8:0:1::1')));
    const second = pairOf(await refresh(target, token, from('2001:db8:0:1:ffff::2')));
    t.equal(generationOf(second), generationOf(first));
    refused(t, await refresh(target, token, from('2001:db8:0:2::1')), 503, 'refresh_overlap');
  });

  await t.test('change nothing after more than five seconds inside the service', async (t) => {
    const slow = await buildTestApp(t, {
      env: trusting,
      override: (options) => {
        const { clock } = options;
        return { ...options, clock: { ...clock, monotonic: () => clock.monotonic() - 5001 } };
      },
    });
    const pair = await signUp(slow);
    refused(t, await refresh(slow, pair.refresh_token), 503, 'unavailable');
    t.equal((await verify(slow, pair.access_token)).statusCode, 200);
  });
});

onEachStore('the promises of the closed window', async (t, env) => {
  const target = await buildTestApp(t, { env: { ...env, REFRESH_RETRY_WINDOW: '0' } });

  for (const use of ['access', 'refresh'] as const) {
    await t.test(`once the new ${use} token was used, the old refresh token ends the session`, async (t) => {
      const { refresh_token: token } = await signUp(target);
      let pair = pairOf(await refresh(target, token));
      if (use === 'access') await verify(target, pair.access_token);
      else pair = pairOf(await refresh(target, pair.refresh_token));
      refused(t, await refresh(target, token), 401, 'token_reused');
      refused(t, await verify(target, pair.access_token), 401, 'invalid_token');
      refused(t, await refresh(target, pair.refresh_token), 401, 'invalid_token');
    });
  }
});
