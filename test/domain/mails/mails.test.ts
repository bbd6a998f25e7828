import { test } from 'tap';
import type { AuditEvent } from '../../../src/domain/audit/event.ts';
import { NO_REQUEST } from '../../../src/domain/audit/source.ts';
import type { Guess } from '../../../src/domain/passwords/guessing-limits.ts';
import { hashOneTimeToken } from '../../../src/domain/passwords/one-time-token.ts';
import type { Caller } from '../../../src/domain/principal.ts';
import { makeMails } from '../../../src/domain/mails/mails.ts';
import type { TakenMail } from '../../../src/domain/mails/wanted-mail.ts';
import { openLimits } from '../../support/open-limits.ts';
import { aUser, NO_FACTOR } from '../../support/token.ts';

const TOKEN = 'lkv_secret';
const ADDRESS = { email: 'ada@example.com', verified: false };
const MAILER = {
  serviceId: 'lkc_mailer',
  name: 'mailer',
  audience: null,
  proof: { by: 'secret' as const, secretHash: new Uint8Array(32) },
};

const aCaller = (type: 'access' | 'llt' = 'access', id = 7): Caller => ({
  ...NO_FACTOR,
  user: { ...aUser(), id },
  tokenId: 11,
  type,
  generation: 1,
  createdAt: 1,
  checkedAfterBody: true,
});

/** Ada is the only account. @param wanted what the record says of her wish. */
function aService(wanted = { isVerified: false, freeIn: 0 }) {
  const events: AuditEvent[] = [];
  const limited: unknown[] = [];
  const guesses: Guess[] = [];
  const asked: unknown[] = [];
  const origin = { fingerprints: ['home'], token: null, network: '192.0.2.0/24' };
  const mails = makeMails({
    mails: {
      wantVerification: (caller) => {
        asked.push(caller);
        return Promise.resolve(wanted);
      },
      take: (limit, newToken) =>
        Promise.resolve(
          (['password_reset', 'email_verification'] as const).slice(0, limit).map((kind, i): TakenMail => ({
            ...ADDRESS,
            id: i,
            kind,
            token: newToken(kind),
            expiresAt: 1,
            user: aUser(),
          })),
        ),
      settle: (id) => {
        asked.push(id);
        return Promise.resolve();
      },
      verify: (tokenHash) => Promise.resolve(hashOneTimeToken(TOKEN).equals(tokenHash) ? 7 : null),
    },
    accounts: { address: (id) => Promise.resolve(id === 7 ? ADDRESS : null) },
    limitGuess: (guess, check) => {
      guesses.push(guess);
      return openLimits(events).limitGuess(guess, check);
    },
    randomBytes: (size) => Buffer.alloc(size, 1),
    audit: (event) => events.push(event),
    auditLimit: (key, event) => limited.push([key, event]),
  });
  return {
    ...mails,
    asked,
    events,
    guesses,
    limited,
    tryToken: (verificationToken: string) => mails.verify({ verificationToken, origin, from: NO_REQUEST }),
  };
}

test('an address is shown to the access token of its account', async (t) => {
  const { ownAddress } = aService();
  t.equal(await ownAddress(aCaller()), ADDRESS);
  await t.rejects(ownAddress(aCaller('llt')), { code: 'token_not_allowed' });
  await t.rejects(ownAddress(aCaller('access', 8)), { code: 'invalid_token', reason: 'gone' });
});

test('a mail is wanted for the caller, unless the address is proved', async (t) => {
  const service = aService();
  t.equal(await service.requestVerification(aCaller(), NO_REQUEST), true);
  t.strictSame(service.asked, [{ userId: 7, tokenId: 11 }]);
  const proved = aService({ isVerified: true, freeIn: 0 });
  t.equal(await proved.requestVerification(aCaller(), NO_REQUEST), false);
  await t.rejects(service.requestVerification(aCaller('llt'), NO_REQUEST), { code: 'token_not_allowed' });
  t.equal(service.asked.length, 1);
});

test('beyond the limit of mails, the caller hears when to ask again', async (t) => {
  const { requestVerification, limited } = aService({ isVerified: false, freeIn: 1001 });
  await t.rejects(requestVerification(aCaller(), NO_REQUEST), {
    code: 'rate_limited',
    retryAfter: 2,
    reason: 'mails',
  });
  t.strictSame(limited, [
    ['mails:7', { event: 'limit.reached', limit: 'mails', windowSeconds: 3600, userId: 7 }],
  ]);
});

test('a token proves the address, and a bad one counts as a guess of its network', async (t) => {
  const { tryToken, events, guesses } = aService();
  await tryToken(TOKEN);
  await t.rejects(tryToken('lkv_guess'), { code: 'invalid_verification_token' });
  t.strictSame(events, [{ event: 'email.verified', userId: 7 }, { event: 'email.verification_failed' }]);
  t.match(guesses, [{ name: null, account: null }, { name: null }]);
});

test('each mail has a token of its kind, and leaves an event', async (t) => {
  const { take, settle, events, asked } = aService();
  const mails = await take(2, MAILER, NO_REQUEST);
  const random = Buffer.alloc(32, 1).toString('base64url');
  t.strictSame(
    mails.map(({ token }) => token),
    [`lkr_${random}`, `lkv_${random}`],
  );
  const taken = { event: 'mail.taken', userId: 7, serviceId: 'lkc_mailer' };
  t.strictSame(events, [
    { ...taken, kind: 'password_reset' },
    { ...taken, kind: 'email_verification' },
  ]);
  t.equal((await take(1, MAILER, NO_REQUEST)).length, 1);
  await settle(5);
  t.strictSame(asked, [5]);
});
