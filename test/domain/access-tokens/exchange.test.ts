import { test } from 'tap';
import { makeExchange } from '../../../src/domain/access-tokens/exchange.ts';
import { NO_REQUEST } from '../../../src/domain/audit/source.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import { aClock } from '../../support/clock.ts';
import { aUser, NO_FACTOR } from '../../support/token.ts';
import { UNOBSERVED } from '../../support/unobserved.ts';

const SID = 11;
const GENERATION = 5_000_000;

function aService({
  verdict = null as AuthError | null,
  roles = [] as string[],
  emailVerified = false,
  away = false,
} = {}) {
  const clock = aClock();
  const outcomes: string[] = [];
  const user = aUser({ roles, emailVerified });
  let drawn = 0;
  const exchange = makeExchange({
    verify: (bearer) => {
      if (verdict) return Promise.reject(verdict);
      return Promise.resolve({ ...bearer, user, type: 'access', createdAt: 1 });
    },
    services: {
      hasAudience: (audience) =>
        away ? Promise.reject(new AuthError('unavailable')) : Promise.resolve(audience === 'orders'),
    },
    ownAudience: 'latchkey',
    ttl: 300,
    clock,
    randomBytes: (size) => Buffer.alloc(size, ++drawn),
    observe: { ...UNOBSERVED, exchange: (outcome) => outcomes.push(outcome) },
  });
  const now = clock.now() / 1000;
  const subject = {
    userId: user.id,
    tokenId: SID,
    generation: GENERATION,
    expiresAt: now + 900,
    type: 'access' as const,
    ...NO_FACTOR,
  };
  const ask = (
    of: Parameters<typeof exchange>[0] = subject,
    audience = 'orders',
    serviceId: string | null = null,
  ) => exchange(of, { audience, serviceId }, NO_REQUEST);
  return { clock, now, outcomes, subject, ask };
}

test('the claims are those of the session, and name who asked', async (t) => {
  const { now, outcomes, subject, ask } = aService({ roles: ['admin'] });
  const claims = await ask();
  t.strictSame(claims, {
    sub: '7',
    sid: SID,
    gen: GENERATION,
    jti: Buffer.alloc(16, 1).toString('base64url'),
    iat: now,
    exp: now + 300,
    aud: 'orders',
    client_id: 'latchkey',
    roles: ['admin'],
  });
  const byService = await ask(subject, 'orders', 'lkc_shop');
  t.match(byService, { client_id: 'lkc_shop', act: { sub: 'lkc_shop' } });
  t.not(byService.jti, claims.jti);
  t.strictSame(outcomes, ['issued', 'issued']);

  const proof = { auth_time: 1_795_000_000, acr: 'mfa', amr: ['pwd', 'otp', 'mfa'] };
  t.match(await ask({ ...subject, acr: 'mfa', authTime: proof.auth_time }), proof);
  t.match(await aService({ emailVerified: true }).ask(), { email_verified: true });
});

test('a token lives no longer than its subject, and at least a second', async (t) => {
  const { clock, now, subject, ask } = aService();
  t.match(await ask({ ...subject, expiresAt: now + 299 }), { exp: now + 299 });
  t.match(await ask({ ...subject, expiresAt: now + 301 }), { exp: now + 300 });
  t.match(await ask({ ...subject, expiresAt: now + 1 }), { iat: now, exp: now + 1 });
  clock.pass(999);
  t.match(await ask({ ...subject, expiresAt: now + 1 }), { iat: now, exp: now + 1 });
  clock.pass(1);
  await t.rejects(ask({ ...subject, expiresAt: now + 1 }), {
    code: 'invalid_subject_token',
    reason: 'expired',
  });
});

test('a subject that is not good, and an audience that is not one, are refused and counted', async (t) => {
  const { outcomes, subject, ask } = aService();
  await t.rejects(ask('signature'), { code: 'invalid_subject_token', reason: 'signature' });
  for (const audience of ['latchkey', 'shop', '', 'a/b', '__proto__'])
    await t.rejects(ask(subject, audience), { code: 'invalid_target' }, audience);
  t.strictSame(outcomes, ['subject', ...Array<string>(5).fill('target')]);

  const ended = aService({ verdict: new AuthError('invalid_token', { reason: 'revoked' }) });
  await t.rejects(ended.ask(), { code: 'invalid_subject_token', reason: 'revoked' });
  t.strictSame(ended.outcomes, ['subject']);
});

test('an outage is no refusal', async (t) => {
  for (const service of [aService({ verdict: new AuthError('unavailable') }), aService({ away: true })]) {
    await t.rejects(service.ask(), { code: 'unavailable' });
    t.strictSame(service.outcomes, ['unavailable']);
  }
  const away = aService({ away: true });
  await t.rejects(away.ask(away.subject, 'latchkey'), { code: 'invalid_target' }, 'needs no look-up');
});

test('with a clock that the stores contradict, no token is made', async (t) => {
  const { clock, outcomes, ask } = aService();
  clock.distrust();
  await t.rejects(ask(), { code: 'unavailable' });
  t.strictSame(outcomes, ['unavailable']);
});
