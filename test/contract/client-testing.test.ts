import { setTimeout as sleep } from 'node:timers/promises';
import { testServer } from '@latchkey/client/testing';
import { test } from 'tap';
import { buildTestApp } from '../support/app.ts';
import { claimsOf, type Pair } from '../support/client.ts';

/** A Latchkey, or what stands for one. */
interface World {
  url: string;
  fetch: typeof globalThis.fetch;
  /** Lets the window pass in which a refresh may be repeated. */
  passWindow: () => Promise<void>;
}

interface Sent {
  token?: string | undefined;
  /** Text is sent as it is. */
  body?: unknown;
}

type Json = Readonly<Record<string, unknown>>;

const ADA = {
  username: 'Ada',
  name: 'Ada Lovelace',
  email: 'Ada@example.com',
  password: 'difference engine',
};
const BOB = { username: 'bob', name: 'Bob', email: 'bob@example.com', password: 'analytical engine' };

test('the testing server of the client answers as Latchkey does', async (t) => {
  const { app } = await buildTestApp(t, { env: { REFRESH_RETRY_WINDOW: '1' } });
  await app.listen({ port: 0, host: '127.0.0.1' });
  const latchkey = { url: app.listeningOrigin, fetch, passWindow: () => sleep(1100) };
  const server = testServer();
  const { now } = Date;
  let passed = 0;
  t.teardown(() => (Date.now = now));
  const expected = await transcriptOf(latchkey);
  Date.now = () => now() + passed;
  const found = await transcriptOf({
    ...server,
    passWindow: () => Promise.resolve(void (passed += 11_000)),
  });
  t.ok(expected.length > 80, `${expected.length} answers`);
  for (const [i, line] of expected.entries()) t.equal(found[i], line);
  t.equal(found.length, expected.length);
});

/** What each request of a long conversation is answered with, in words: values that differ by chance are left out. */
async function transcriptOf({ url, fetch, passWindow }: World): Promise<string[]> {
  const lines: string[] = [];
  const note = (what: string, value: unknown) => lines.push(`${what}: ${JSON.stringify(value)}`);

  async function ask(line: string, { token, body }: Sent = {}): Promise<Json> {
    const [method = '', path = ''] = line.split(' ');
    const response = await fetch(url + path, {
      method,
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const answer = (await response.json()) as Json;
    const { status, headers } = response;
    const shown = status === 200 ? shapeOf(answer) : problemOf(answer);
    const challenge = headers.get('www-authenticate')?.includes('error="invalid_token"') ?? null;
    const more = [headers.has('retry-after'), headers.get('cache-control'), headers.has('x-request-id')];
    note(`${line.replace(/\d+/g, 'N')} ${JSON.stringify(body)}`, [status, shown, challenge, ...more]);
    return answer;
  }

  const pairFrom = async (line: string, sent: Sent) => (await ask(line, sent)) as unknown as Pair;
  const signUp = (body: object) => pairFrom('POST /api/auth/signup', { body });
  const logIn = ({ username, password }: typeof ADA, device = 'Browser') =>
    pairFrom('POST /api/auth', { body: { username, password, device } });
  const refresh = (token: string) => pairFrom('GET /api/auth/refresh', { token });
  async function lists(token: string) {
    const { tokens, ended } = await ask('GET /api/user/tokens', { token });
    const inWords = ({ type, name, current, reason, audience }: Json) => [
      type,
      name,
      current,
      reason,
      audience,
    ];
    note('live', (tokens as Json[]).map(inWords));
    note('ended', (ended as Json[]).map(inWords));
    return tokens as { id: number; type: string; current: boolean }[];
  }

  // Accounts.
  const SIGNUP = 'POST /api/auth/signup';
  for (const body of [
    {},
    '{',
    '',
    '[]',
    { ...ADA, extra: 1 },
    { ...ADA, password: 'short' },
    { ...ADA, username: 5 },
    { ...ADA, username: ' ' },
    { ...ADA, name: 'x'.repeat(129), device: '' },
    { ...ADA, username: 'a b', email: 'ada' },
    { ...ADA, username: 'a@b', email: 'ada @example.com' },
  ])
    await ask(SIGNUP, { body });
  const ada = await signUp({ ...ADA, device: 'Laptop' });
  const bob = await signUp({ ...BOB, device: 'Desktop' });
  await ask(SIGNUP, { body: ADA });
  await ask(SIGNUP, { body: { ...BOB, username: 'bobby' } });
  await ask('POST /api/auth', { body: { ...BOB, name: undefined, email: undefined, password: 'wrong' } });
  await ask('POST /api/auth', { body: { username: 'nobody', password: 'wrong' } });
  await ask('POST /api/auth', { body: { username: 'ada' } });
  await ask('POST /api/auth', { body: { username: ' ', password: ' ' } });
  await ask('POST /api/auth', { body: { username: '', password: '' } });
  await logIn({ ...ADA, username: 'ADA' }, 'Phone');
  const byAddress = await logIn({ ...ADA, username: 'ADA@example.com' });
  for (const body of [{ login_token: 'none', code: '123456' }, { login_token: 'none' }])
    await ask('POST /api/auth/second-factor', { body });

  // Tokens that are presented.
  for (const token of [undefined, 'x', ada.refresh_token]) await ask('GET /api/user', { token });
  for (const token of [undefined, 'x', ada.access_token]) await ask('GET /api/auth/refresh', { token });
  await ask('GET /api/user', { token: ada.access_token });

  // Rotation.
  const second = await refresh(ada.refresh_token);
  await ask('GET /api/user', { token: ada.access_token });
  const again = await refresh(ada.refresh_token);
  const [first, same] = [second, again].map(({ access_token }) => claimsOf(access_token));
  note('the same pair again', [JSON.stringify(first) === JSON.stringify(same), generationsOf(ada, second)]);
  const third = await refresh(second.refresh_token);
  await ask('GET /api/auth/refresh', { token: ada.refresh_token });
  await ask('GET /api/user', { token: third.access_token });
  const lost = await logIn(BOB);
  await refresh(lost.refresh_token);
  await passWindow();
  const found = await refresh(lost.refresh_token);
  await ask('GET /api/user', { token: found.access_token });
  await passWindow();
  await ask('GET /api/auth/refresh', { token: lost.refresh_token });
  await ask('GET /api/user', { token: found.access_token });
  await ask('GET /api/auth/refresh', { token: found.refresh_token });
  await lists(bob.access_token);

  // The account.
  const token = third.access_token;
  for (const body of [
    {},
    { name: ' Countess ' },
    { locale: 'de' },
    { locale: null },
    { locale: 5 },
    { locale: 'x' },
    { locale: '' },
    { username: 'countess' },
    { username: 'countess', current_password: 'wrong' },
    { username: 'BOB', current_password: ADA.password },
    { email: BOB.email, current_password: ADA.password },
    { username: 'countess', email: 'countess@example.com', current_password: ADA.password },
  ]) {
    const { name, username, locale } = await ask('PATCH /api/user', { token, body });
    note('now', [name, username, locale]);
  }
  const { locale, username } = await ask('GET /api/user', { token });
  note('and', [username, locale]);
  note('address', await ask('GET /api/user/email', { token }));
  await ask('POST /api/user/email-verification', { token });
  await ask('POST /api/user/email-verification', { token, body: { x: 1 } });
  await ask('POST /api/user/email', { token, body: { verification_token: 'x' } });
  await ask('POST /api/auth/email-verification', { body: { verification_token: 'x' } });
  await ask('POST /api/auth/password-reset-request', { body: { username: 'ada' } });
  await ask('POST /api/auth/password-reset', { body: { reset_token: 'x', password: 'a new password 1' } });

  // Second factors. The testing server adds none.
  await ask('GET /api/user/factors', { token });
  for (const current_password of ['wrong', ADA.password])
    for (const path of ['recovery-codes', '7/removal'])
      await ask(`POST /api/user/factors/${path}`, { token, body: { current_password } });
  await ask('POST /api/user/factors/totp', { token, body: { current_password: 'wrong' } });
  await ask('POST /api/user/factors/totp/confirm', { token, body: { code: '123456' } });

  // Long-lived and limited tokens, and the ends of all.
  const tablet = await ask('POST /api/auth/llt', { token, body: { device: ' Tablet ' } });
  for (const body of [{}, { device: '' }, { devic: 'x' }]) await ask('POST /api/auth/llt', { token, body });
  const scopes = ['orders:read'];
  await ask('POST /api/user/tokens', { token, body: { name: 'Report', scopes } });
  await ask('POST /api/user/tokens', { token, body: { name: 'Report', scopes, audience: 'none' } });
  for (const wrong of [
    { scopes: 'orders:read' },
    { scopes: [] },
    { scopes: Array.from({ length: 33 }, (_, i) => `scope-${i}`) },
    { scopes: ['Orders'] },
    { scopes: [7] },
    { scopes: ['orders:read', 'orders:read'], expires_in: 59 },
    { expires_in: 400 * 86_400 },
    { expires_in: 60.5, name: '' },
  ])
    await ask('POST /api/user/tokens', { token, body: { name: 'Report', scopes, ...wrong } });
  const listed = await lists(token);
  const ids = {
    own: listed.find(({ current }) => current)?.id,
    other: listed.find(({ type, current }) => type === 'refresh' && !current)?.id,
    limited: listed.find(({ type }) => type === 'limited')?.id,
    foreign: claimsOf(bob.access_token).sid,
    tablet: tablet.id,
  };
  for (const path of [
    `llt/${ids.own}`,
    `llt/${String(ids.tablet)}`,
    `llt/${String(ids.tablet)}`,
    String(ids.foreign),
    '999',
    'abc',
    '0',
    `${ids.other}`,
  ])
    await ask(`DELETE /api/auth/${path}`, { token });
  await ask(`DELETE /api/auth?id=${String(ids.foreign)}`, { token });
  await ask('DELETE /api/auth?id=', { token });
  await ask('DELETE /api/auth?other=1', { token });
  await ask('DELETE /api/auth', { token, body: { id: 7 } });
  await ask(`DELETE /api/user/tokens/${ids.limited}`, { token });
  await ask(`DELETE /api/user/tokens/999`, { token });
  await ask('GET /api/user', { token: byAddress.access_token });
  await lists(token);

  const other = await logIn({ ...ADA, username: 'countess' }, 'Other');
  const passwords = { current_password: ADA.password, new_password: 'another engine 7' };
  for (const change of [{ current_password: 'wrong' }, { new_password: 'short' }, {}]) {
    const { ended } = await ask('POST /api/user/password', { token, body: { ...passwords, ...change } });
    note('ended', ended);
  }
  await ask('GET /api/user', { token: other.access_token });
  await ask('GET /api/auth/refresh', { token: other.refresh_token });
  await ask('DELETE /api/auth', { token: other.access_token });
  await lists(token);

  // Logout.
  const countess = { ...ADA, username: 'countess', password: passwords.new_password };
  const one = await logIn(countess, 'One');
  await logIn(countess, 'Two');
  const { ended } = await ask('DELETE /api/user/tokens?keep=current', { token: one.access_token });
  note('ended', ended);
  await ask('DELETE /api/user/tokens?keep=all', { token: one.access_token });
  for (let i = 0; i < 2; i++) await ask('DELETE /api/user/tokens', { token: one.access_token });
  const last = await logIn(countess);
  for (let i = 0; i < 2; i++) await ask('DELETE /api/auth', { token: last.access_token });
  await ask('GET /api/user', { token: last.access_token });
  await ask('GET /api/auth/refresh', { token: last.refresh_token });
  await lists((await logIn(countess)).access_token);
  return lines;
}

/** What a client reads of two pairs: the same session, the later one greater. */
function generationsOf(...pairs: Pair[]): boolean[] {
  const [one = {}, other = {}] = pairs.map(({ access_token }) => claimsOf(access_token));
  const isLived = Number(one.exp) - Number(one.iat) === 900;
  return [one.sid === other.sid, Number(one.gen) < Number(other.gen), isLived, one.sub === other.sub];
}

/** Names and types. Times and texts that may be unknown count as one. */
function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.slice(0, 1).map(shapeOf);
  if (typeof value !== 'object' || value === null) return value === null ? 'string' : typeof value;
  const members = Object.entries(value).map(([name, each]) => [name, shapeOf(each)] as const);
  return Object.fromEntries(members.sort(([one], [other]) => (one < other ? -1 : 1)));
}

function problemOf({ type, title, status, detail, code, errors = [] }: Json): unknown {
  const refused = (errors as Json[]).map(({ path, code, params }) => JSON.stringify([path, code, params]));
  return [type, title, status, typeof detail, code, refused.sort()];
}
