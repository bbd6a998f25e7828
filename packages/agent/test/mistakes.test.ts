import { VerifierError } from '@latchkey/verifier';
import { test } from 'tap';
import { watchMistakes } from '../src/mistakes.ts';

const MISTAKE = new VerifierError('unavailable', 'configuration', 'client.secret is wrong');
const OUTAGE = new VerifierError('unavailable', 'not_ready', 'no answer yet');
const cause = new VerifierError('unavailable', 'unexpected_answer', 'no Latchkey at the address');
const ELSEWHERE = new VerifierError('unavailable', 'not_ready', 'no keys yet', { cause });

/** @param looks what `ready()` throws at each look, a second apart. @returns the looks at which it would have ended */
async function watch(looks: (VerifierError | null)[]): Promise<number[]> {
  const stopping = new AbortController();
  const lasting: number[] = [];
  let look = 0;
  await watchMistakes({
    verifier: {
      ready() {
        const error = looks[look];
        return error ? Promise.reject(error) : Promise.resolve();
      },
    },
    onReady: () => undefined,
    onLasting: () => lasting.push(look),
    signal: stopping.signal,
    clock: {
      now: () => look * 1000,
      sleep() {
        if (++look === looks.length) stopping.abort();
        return Promise.resolve();
      },
    },
  });
  return lasting;
}

const seconds = (error: VerifierError | null, count: number) => Array.from({ length: count }, () => error);

test('a mistake that lasts for 30 s ends the agent, and an outage never', async (t) => {
  t.strictSame(await watch(seconds(MISTAKE, 31)), [30]);
  t.strictSame(await watch([...seconds(MISTAKE, 29), null, ...seconds(MISTAKE, 30)]), []);
  t.strictSame(await watch(seconds(OUTAGE, 3600)), []);
});

test('another server at the address is a mistake until Latchkey has answered', async (t) => {
  t.strictSame(await watch(seconds(ELSEWHERE, 31)), [30]);
  t.strictSame(await watch([null, ...seconds(ELSEWHERE, 3600)]), []);
});
