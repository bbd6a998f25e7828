import { request } from 'node:http';
import { test } from 'tap';
import { aManager } from '../support/accounts.ts';
import { buildTestApp } from '../support/app.ts';
import { anAccount, bearer, call, logIn, signUp } from '../support/client.ts';
import { everyOperation, type ValidRequest } from '../support/every-operation.ts';
import { ADMITTED, aHolder, answerOf, PATIENT, rowOf, sent } from '../support/lanes.ts';
import { PASSKEYS } from '../support/passkeys.ts';
import { aReset, redeem } from '../support/resets.ts';
import { until } from '../support/until.ts';
import '../support/watch-leaks.ts';
import { attackedOperations } from './operations.ts';

const CONNECTIONS = 250;
const EXTRA = 1;

test('no operation holds more than one connection while it waits for an account', async (t) => {
  const target = await buildTestApp(t, { env: { ...PATIENT, ...PASSKEYS } });
  const { hold, release, waiting } = await aHolder(t, target);
  const statusesOf = new Map(attackedOperations().map(({ name, statuses }) => [name, statuses]));
  const inLane = new Set<string>();
  const send = ({ method, path, headers, body }: ValidRequest) =>
    answerOf(
      target.inject({
        method,
        url: path,
        headers,
        ...(body !== null && { payload: body }),
      }),
    );

  // The feed is one answer without an end, and reads no row.
  const requests = (await everyOperation(target)).filter(({ name }) => name !== 'revocations');
  for (const valid of requests) {
    await hold('SELECT FROM users', 'SELECT FROM tokens');
    const flood = sent(Array.from({ length: ADMITTED + EXTRA }, () => send(valid)));
    // Whatever is not refused for want of room in a lane waits for no row.
    await until(() => flood.refused() === EXTRA || flood.answers.length === ADMITTED + EXTRA);
    t.ok((await waiting()) <= 1, valid.what);
    if (flood.refused() > 0) {
      inLane.add(valid.name);
      t.ok(statusesOf.get(valid.name)?.includes('429'), `${valid.what}: 429 is in the reference`);
    }
    await release();
    const statuses = await flood.statuses();
    t.notOk(statuses.includes(500), valid.what);
  }
  for (const name of ['logIn', 'logOut', 'resetPassword', 'changeUser', 'endUserTokens'])
    t.ok(inLane.has(name), `${name} waits in a lane`);
});

test('250 connections of one account take one connection to PostgreSQL', async (t) => {
  const target = await buildTestApp(t, { env: PATIENT });
  const url = await target.app.listen({ port: 0 });
  const { hold, release, waiting } = await aHolder(t, target);
  const service = await aManager(target.databaseUrl, target);
  const account = anAccount();
  const { user, access_token: token } = await signUp(target, account);
  const others = Array.from({ length: 5 }, () => anAccount());
  for (const other of others) await signUp(target, other);

  const ask = async (method: string, path: string, body?: object) => {
    const headers = { ...bearer(token), connection: 'close', 'content-type': 'application/json' };
    const sending = { method, headers, ...(body && { body: JSON.stringify(body) }) };
    const answer = await fetch(url + path, sending);
    return { status: answer.status, body: await answer.text() };
  };
  const { username, password } = account;
  const attacks = [
    () => ask('PATCH', '/api/user', { name: 'Again' }),
    () => ask('DELETE', '/api/user/tokens?keep=current'),
    () => ask('DELETE', '/api/auth/999999'),
    () => ask('POST', '/api/auth', { username, password }),
  ];
  await hold(rowOf(user.id));
  const flood = sent(
    Array.from({ length: CONNECTIONS }, (_, i) => attacks[i % attacks.length]?.() ?? ask('GET', '')),
  );
  await until(() => flood.refused() === CONNECTIONS - ADMITTED);
  for (const other of others) await logIn(target, other.username);
  t.equal(await waiting(), 1);

  const disabling = service(`PATCH /api/users/${user.id}`, { disabled: true });
  await until(() => flood.refused() === CONNECTIONS - ADMITTED + 1);
  await release();
  t.equal((await disabling).statusCode, 200);
  t.strictSame(
    (await flood.statuses()).filter((status) => ![200, 401, 429].includes(status)),
    [],
  );
});

test('a thief’s loop', async (t) => {
  const target = await buildTestApp(t, { env: PATIENT });
  const { hold, release } = await aHolder(t, target);
  const change = (token: string) =>
    answerOf(call(target, 'PATCH /api/user', { token, payload: { name: 'Again' } }));
  async function aVictim(count: number) {
    const account = anAccount();
    const { user } = await signUp(target, account);
    const tokens: string[] = [];
    for (let i = 0; i < count; i++) tokens.push((await logIn(target, account.username)).access_token);
    return { ...user, tokens };
  }
  const LOOP = ADMITTED + EXTRA;

  for (const [what, count] of [
    ['34 requests of one token', 1],
    ['34 tokens of one account', LOOP],
  ] as const) {
    await t.test(`${what}: the last is refused, and the owner’s login is not`, async (t) => {
      const { id, username, tokens } = await aVictim(count);
      await hold(rowOf(id));
      const loop = sent(Array.from({ length: LOOP }, (_, i) => change(tokens[i % count] ?? '')));
      await until(() => loop.refused() === EXTRA);
      const login = logIn(target, username);
      await until(() => loop.refused() === EXTRA + 1);
      await release();
      await login;
      t.strictSame(await loop.statuses(), [...Array.from({ length: ADMITTED - 1 }, () => 200), 429, 429]);
    });
  }

  await t.test('places of clients that have gone become free with their turns', async (t) => {
    const { id, tokens } = await aVictim(1);
    const [token = ''] = tokens;
    const url = new URL(await target.app.listen({ port: 0 }));
    await hold(rowOf(id));
    const body = '{"name":"Gone"}';
    const headers = { ...bearer(token), 'content-type': 'application/json', 'content-length': body.length };
    let refused = 0;
    const gone = Array.from({ length: ADMITTED + EXTRA }, () => {
      const sending = request({
        host: url.hostname,
        port: url.port,
        method: 'PATCH',
        path: '/api/user',
        headers,
      });
      sending.on('response', () => refused++).on('error', () => undefined);
      return sending.end(body);
    });
    await until(() => refused === EXTRA);
    for (const each of gone) each.destroy();
    await release();
    await until(async () => (await change(token)).status === 200);

    await hold(rowOf(id));
    const loop = sent(Array.from({ length: LOOP }, () => change(token)));
    await until(() => loop.refused() === EXTRA);
    await release();
    t.equal((await loop.statuses()).filter((status) => status === 200).length, ADMITTED);
  });
});

test('of 100 uses of one reset token one succeeds', async (t) => {
  const target = await buildTestApp(t, { env: PATIENT });
  const { user } = await signUp(target);
  const reset = await aReset(target.databaseUrl, user.id);
  const uses = sent(Array.from({ length: 100 }, () => answerOf(redeem(target, reset))));
  const statuses = await uses.statuses();
  t.equal(statuses.filter((status) => status === 200).length, 1);
  t.strictSame(
    statuses.filter((status) => ![200, 401, 429, 503].includes(status)),
    [],
  );
});
