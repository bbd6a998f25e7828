import { test } from 'tap';
import { buildTestApp } from '../support/app.ts';
import { anAccount, logIn, pairOf, refresh, signUp, verify, type Pair } from '../support/client.ts';
import { valueOf } from '../support/exposition.ts';
import '../support/watch-leaks.ts';

// The threat: somebody refreshes without end and presents each new token, so that a replica forgets everybody else's, and
// checks a signature whenever one of them comes back.

const SESSIONS = 10;
const CAPACITY = 5 * SESSIONS;

test('sessions that refresh endlessly take no more than their share of what is remembered', async (t) => {
  const target = await buildTestApp(t, {
    override: (options) => ({ ...options, rememberedTokens: CAPACITY }),
  });
  const sessionsOf = async () => {
    const account = anAccount();
    const pairs = [await signUp(target, account)];
    while (pairs.length < SESSIONS) pairs.push(await logIn(target, account.username));
    return pairs;
  };
  const present = async ({ access_token: token }: Pair) => {
    const { statusCode } = await verify(target, token);
    if (statusCode !== 200) throw new Error(`verify answered ${statusCode}`);
  };
  const checksOf = async (work: () => Promise<void>) => {
    const read = async () =>
      valueOf(await target.composition.ops.metrics(), 'latchkey_signature_checks_total');
    const before = await read();
    await work();
    return (await read()) - before;
  };

  const bystanders = await sessionsOf();
  const attackers = await sessionsOf();
  const comeBack = async () => {
    for (const pair of bystanders) await present(pair);
  };
  const attack = async (tokens: number) => {
    for (let i = 0; i < tokens; i++) {
      const slot = i % SESSIONS;
      const pair = pairOf(await refresh(target, attackers[slot]?.refresh_token ?? ''));
      attackers[slot] = pair;
      await present(pair);
    }
  };

  t.equal(await checksOf(comeBack), SESSIONS, 'a token is checked when it is seen first');
  t.equal(await checksOf(comeBack), 0);
  const most = CAPACITY - SESSIONS;
  t.equal(await checksOf(() => attack(most)), most, 'a new token costs the attacker a refresh');
  t.equal(await checksOf(comeBack), 0, 'the others are still remembered');
  await attack(2 * CAPACITY);
  t.equal(await checksOf(comeBack), SESSIONS, 'no more than two generations are remembered');
  t.equal(await checksOf(comeBack), 0, 'and one signature brings each of them back');
});
