import { test } from 'tap';
import type { AuditEvent } from '../../../src/domain/audit/event.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import { NO_REQUEST } from '../../../src/domain/audit/source.ts';
import { USUAL_MAIL_KINDS, type MailKind } from '../../../src/domain/mail-kinds.ts';
import type { Guess } from '../../../src/domain/passwords/guessing-limits.ts';
import { hashOneTimeToken } from '../../../src/domain/passwords/one-time-token.ts';
import type { Caller } from '../../../src/domain/principal.ts';
import { makeMails } from '../../../src/domain/mails/mails.ts';
import type { TakenMail, UndeliverableAccount } from '../../../src/domain/mails/wanted-mail.ts';
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
function aService(
  wanted = { isVerified: false, freeIn: 0 },
  {
    proof = { isNew: true, isPending: true },
    isAway = false,
    marked = [] as UndeliverableAccount[],
    settled = 'password_reset' as MailKind | null,
  } = {},
) {
  const counted: string[] = [];
  const told: number[] = [];
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
      wantInvitation: () => Promise.resolve(null),
      take: (limit, kinds, newToken) =>
        Promise.resolve(
          (['password_reset', 'email_verification'] as const)
            .filter((kind) => kinds.includes(kind))
            .slice(0, limit)
            .map((kind, i): TakenMail => ({
              ...ADDRESS,
              id: i,
              kind,
              token: newToken(kind),
              expiresAt: 1,
              user: aUser(),
              locale: null,
            })),
        ),
      settle: (id) => {
        asked.push(id);
        return Promise.resolve(settled);
      },
      markUndeliverable: (key) => {
        asked.push(key);
        return Promise.resolve(marked);
      },
      verify: (tokenHash) =>
        Promise.resolve(hashOneTimeToken(TOKEN).equals(tokenHash) ? { user: aUser(), ...proof } : null),
    },
    tokenStates: { now: () => (isAway ? Promise.reject(new AuthError('unavailable')) : Promise.resolve(1)) },
    finishUserChange: ({ id }) => {
      told.push(id);
      return Promise.resolve();
    },
    limitGuess: (guess, check) => {
      guesses.push(guess);
      return openLimits(events).limitGuess(guess, check);
    },
    observe: { mail: (kind, outcome) => counted.push(`${kind} ${outcome}`) },
    randomBytes: (size) => Buffer.alloc(size, 1),
    audit: (event) => events.push(event),
    auditLimit: (key, event) => limited.push([key, event]),
  });
  return {
    ...mails,
    asked,
    counted,
    events,
    guesses,
    limited,
    told,
    tryToken: (verificationToken: string) => mails.verify({ verificationToken, origin, from: NO_REQUEST }),
  };
}

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
  const { tryToken, events, guesses, told } = aService();
  await tryToken(TOKEN);
  t.strictSame(told, [7], 'the fast store and the feed');
  await t.rejects(tryToken('lkv_guess'), { code: 'invalid_verification_token' });
  t.strictSame(events, [{ event: 'email.verified', userId: 7 }, { event: 'email.verification_failed' }]);
  t.match(guesses, [{ name: null, account: null }, { name: null }]);
});

test('a repeated proof is no second event, and tells what the first one could not', async (t) => {
  for (const isPending of [true, false]) {
    const repeat = aService(undefined, { proof: { isNew: false, isPending } });
    await repeat.tryToken(TOKEN);
    t.strictSame([repeat.events, repeat.told], [[], isPending ? [7] : []]);
  }
});

test('while the fast store is down, no token is used up', async (t) => {
  const { tryToken, events } = aService(undefined, { isAway: true });
  await t.rejects(tryToken(TOKEN), { code: 'unavailable' });
  t.strictSame(events, []);
});

test('each mail has a token of its kind, and leaves an event', async (t) => {
  const { take, settle, events, asked, counted } = aService();
  const mails = await take({ limit: 2, kinds: USUAL_MAIL_KINDS }, MAILER, NO_REQUEST);
  const random = Buffer.alloc(32, 1).toString('base64url');
  t.strictSame(
    mails.map((mail) => mail.kind !== 'notice' && mail.token),
    [`lkr_${random}`, `lkv_${random}`],
  );
  const taken = { event: 'mail.taken', userId: 7, serviceId: 'lkc_mailer' };
  t.strictSame(events, [
    { ...taken, kind: 'password_reset' },
    { ...taken, kind: 'email_verification' },
  ]);
  t.equal((await take({ limit: 1, kinds: USUAL_MAIL_KINDS }, MAILER, NO_REQUEST)).length, 1);
  await settle(5);
  t.strictSame(asked, [5]);
  t.strictSame(counted, [
    'password_reset taken',
    'email_verification taken',
    'password_reset taken',
    'password_reset settled',
  ]);
  const gone = aService(undefined, { settled: null });
  await gone.settle(5);
  t.strictSame(gone.counted, [], 'a repeat is not counted');
});

test('a reported address is news once, and its accounts are finished again and again', async (t) => {
  const inForce: UndeliverableAccount = {
    user: { ...aUser(), id: 7 },
    isInForce: true,
    isNews: true,
    settled: ['password_reset', 'notice'],
  };
  const pending = { ...inForce, user: { ...aUser(), id: 8 }, isInForce: false, settled: [] };
  const { reportUndeliverable, ...first } = aService(undefined, { marked: [inForce, pending] });
  await reportUndeliverable(' ADA@example.com', MAILER, NO_REQUEST);
  t.strictSame(first.asked, ['ada@example.com']);
  t.strictSame(first.counted, ['password_reset undeliverable', 'notice undeliverable']);
  const event = { event: 'email.undeliverable', serviceId: 'lkc_mailer' };
  t.strictSame(first.events, [
    { ...event, userId: 7, address: 'in_force' },
    { ...event, userId: 8, address: 'pending' },
  ]);
  t.strictSame(first.told, [7], 'services see nothing of a pending address');
  const repeat = aService(undefined, { marked: [{ ...inForce, isNews: false, settled: [] }] });
  await repeat.reportUndeliverable('ada@example.com', MAILER, NO_REQUEST);
  t.strictSame([repeat.events, repeat.counted, repeat.told], [[], [], [7]]);
});

test('a report of what is no address, or while the fast store is down, marks nothing', async (t) => {
  const { reportUndeliverable, asked } = aService();
  for (const text of ['ada', '@', 'a\u0000@example.com', 'x'.repeat(254)])
    await reportUndeliverable(text, MAILER, NO_REQUEST);
  for (const text of ['', 'x'.repeat(255), '\udfff'])
    await t.rejects(reportUndeliverable(text, MAILER, NO_REQUEST), { code: 'validation_failed' });
  const away = aService(undefined, { isAway: true });
  const refused = away.reportUndeliverable('ada@example.com', MAILER, NO_REQUEST);
  await t.rejects(refused, { code: 'unavailable' });
  t.strictSame([...asked, ...away.asked], []);
});
