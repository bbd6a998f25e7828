import { test } from 'tap';
import type { AuditEvent } from '../../../src/domain/audit/event.ts';
import { NO_REQUEST } from '../../../src/domain/audit/source.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import type { Guess } from '../../../src/domain/passwords/guessing-limits.ts';
import { hashOneTimeToken } from '../../../src/domain/passwords/one-time-token.ts';
import { makeOwnAddress } from '../../../src/domain/mails/own-address.ts';
import { aCaller } from '../../support/caller.ts';
import { openLimits } from '../../support/open-limits.ts';
import { makeSteps } from '../../support/steps.ts';
import { aUser } from '../../support/token.ts';

const TOKEN = 'lkv_secret';
const ADDRESS = { email: 'ada@example.com', verified: true, pending: 'c@example.com', deliverable: true };
const user = aUser();

/** Ada is the only account, and asks with session 11. */
function aService({
  away = '',
  proof = { isNew: true, isPending: true },
  refusal = null as AuthError | null,
} = {}) {
  const { done, step } = makeSteps(away);
  const events: AuditEvent[] = [];
  const guesses: Guess[] = [];
  const ownAddress = makeOwnAddress({
    accounts: { address: (id) => Promise.resolve(id === user.id ? ADDRESS : null) },
    ownAddresses: {
      prove: async ({ userId, tokenId, withFactor }, presented) => {
        await step('prove', userId, tokenId, withFactor);
        if (refusal) throw refusal;
        return hashOneTimeToken(TOKEN).equals(presented) ? { user, ...proof } : null;
      },
    },
    tokenStates: {
      now: async () => {
        await step('now');
        return 1;
      },
    },
    finishUserChange: ({ id }) => step('finish', id),
    limitGuess: (guess, check) => {
      guesses.push(guess);
      return openLimits(events).limitGuess(guess, check);
    },
    audit: (event) => events.push(event),
  });
  const origin = { fingerprints: ['home'], token: null, network: '192.0.2.0/24' };
  return {
    ...ownAddress,
    done,
    events,
    guesses,
    prove: (verificationToken = TOKEN, caller = aCaller(user, 11)) =>
      ownAddress.prove(caller, { verificationToken, origin, from: NO_REQUEST }),
  };
}

test('an address is shown to the access token of its account', async (t) => {
  const { get } = aService();
  t.equal(await get(aCaller(user, 11)), ADDRESS);
  await t.rejects(get({ ...aCaller(user, 11), type: 'llt' }), { code: 'token_not_allowed' });
  await t.rejects(get(aCaller({ ...user, id: 8 }, 11)), { code: 'invalid_token', reason: 'gone' });
});

test('a proof changes the address, and the replicas hear of it', async (t) => {
  const { prove, done, events } = aService();
  await prove();
  t.strictSame(done, ['now', 'prove 7 11 false', 'finish 7']);
  t.strictSame(events, [{ event: 'email.changed', userId: 7, by: 11 }]);
});

test('a repeat is no second event, and tells what the first one could not', async (t) => {
  for (const isPending of [true, false]) {
    const { prove, done, events } = aService({ proof: { isNew: false, isPending } });
    await prove();
    t.strictSame([events, done.includes('finish 7')], [[], isPending]);
  }
});

test('each refusal counts as a wrong password of the session, and leaves an event', async (t) => {
  for (const refusal of [null, new AuthError('email_taken'), new AuthError('login_too_old')]) {
    const { prove, done, events, guesses } = aService({ refusal });
    await t.rejects(prove(refusal ? TOKEN : 'lkv_guess'), {
      code: refusal?.code ?? 'invalid_verification_token',
    });
    t.strictSame(events, [{ event: 'email.verification_failed', userId: 7, by: 11 }]);
    t.match(guesses, [
      { name: 'ada', account: { userId: 7 }, origin: { token: { userId: 7, tokenId: 11, type: 'refresh' } } },
    ]);
    t.equal(done.at(-1), 'prove 7 11 false');
  }
});

test('a long-lived token, and a fast store that is down, are refused before anything is looked up', async (t) => {
  const llt = aService();
  await t.rejects(llt.prove(TOKEN, { ...aCaller(user, 11), type: 'llt' }), { code: 'token_not_allowed' });
  t.strictSame([llt.done, llt.events], [[], []]);
  const down = aService({ away: 'now' });
  await t.rejects(down.prove(), { code: 'unavailable' });
  t.strictSame([down.done, down.events], [['now'], []]);
});
