import { test } from 'tap';
import { makeIntrospect } from '../src/introspect.ts';
import { unavailable } from '../src/verifier-error.ts';
import type { ServiceToken, VerifiedToken } from '../src/verified-token.ts';

const TOKEN = { userId: 7, sid: 11, tokenType: 'access', claims: { sub: '7', sid: 11 } } as VerifiedToken;
const GOOD = { active: true, token_use: 'access', sub: '7', sid: 11 };

const answering = (answer: unknown) =>
  makeIntrospect({ introspect: () => Promise.resolve(answer as Record<string, unknown>) }, () => 0);

test('returns what an answer says of the user of an active token', async (t) => {
  const presentOf = (said: object) => answering({ ...GOOD, ...said })('token', TOKEN);
  t.strictSame(await presentOf({ roles: ['editor'] }), { roles: ['editor'], emailVerified: false });
  t.strictSame(await presentOf({ roles: [] }), { roles: [], emailVerified: false });
  t.strictSame(await presentOf({}), { roles: [], emailVerified: false });
  for (const email_verified of [true, false])
    t.strictSame(await presentOf({ email_verified }), { roles: [], emailVerified: email_verified });
});

test('refuses an inactive token', async (t) => {
  await t.rejects(answering({ active: false })('token', TOKEN), { code: 'invalid_token' });
});

test('an answer of another shape, or about another token, is unavailable', async (t) => {
  const answers = [
    {},
    { active: 'true' },
    { ...GOOD, sid: 12 },
    { ...GOOD, sub: '8' },
    { ...GOOD, token_use: 'llt' },
    { ...GOOD, roles: 'editor' },
    { ...GOOD, roles: [7] },
    { ...GOOD, roles: null },
    { ...GOOD, email_verified: 'true' },
    { ...GOOD, email_verified: null },
  ];
  for (const answer of answers)
    await t.rejects(answering(answer)('token', TOKEN), { code: 'unavailable' }, JSON.stringify(answer));
});

test('returns the roles of a service, which has no sid', async (t) => {
  const token = { tokenType: 'service', clientId: 'lkc_shop', claims: { sub: 'lkc_shop' } } as ServiceToken;
  const good = {
    active: true,
    token_use: 'service',
    sub: 'lkc_shop',
    client_id: 'lkc_shop',
    roles: ['billing'],
  };
  t.match(await answering(good)('token', token), { roles: ['billing'] });
  for (const wrong of [{ sid: 11 }, { sub: 'lkc_x' }, { token_use: 'access' }])
    await t.rejects(answering({ ...good, ...wrong })('token', token), { code: 'unavailable' });
});

test('sends one request for concurrent calls with one token, and a new one later', async (t) => {
  const asked: string[] = [];
  let changes = 0;
  const ask = async (token: string) => {
    asked.push(token);
    await new Promise((resolve) => setImmediate(resolve));
    if (token === 'away') throw unavailable('unreachable', 'away');
    return GOOD;
  };
  const introspect = makeIntrospect({ introspect: ask }, () => changes);
  await Promise.all(['a', 'a', 'b', 'a'].map((token) => introspect(token, TOKEN)));
  t.strictSame(asked, ['a', 'b']);
  await introspect('a', TOKEN);
  t.strictSame(asked, ['a', 'b', 'a']);
  for (let i = 0; i < 2; i++) await t.rejects(introspect('away', TOKEN), { code: 'unavailable' });
  t.equal(asked.length, 5, 'a failure is not cached');
  const before = introspect('a', TOKEN);
  changes++;
  await Promise.all([before, introspect('a', TOKEN), introspect('a', TOKEN)]);
  t.equal(asked.length, 7, 'a change needs a new request');
});
