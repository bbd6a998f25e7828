import { test } from 'tap';
import { RIGHTS } from '../../src/domain/rights.ts';
import { disableAccount, managerOf } from '../support/accounts.ts';
import { ACCOUNT_RIGHTS } from '../support/account-rights.ts';
import { aClient } from '../support/begun.ts';
import { anAccount, call, createLongLived, pairOf, signUp } from '../support/client.ts';
import { aFeedClient } from '../support/feed-reader.ts';
import { aMailer, letPass, lookUp, requestReset, verifyEmail, wantReset } from '../support/mails.ts';
import { refused } from '../support/problem.ts';
import { redeem } from '../support/resets.ts';
import { aRegisteredService, basic } from '../support/registered-service.ts';
import { workDone } from '../support/spy.ts';
import { sql } from '../support/sql.ts';
import { until } from '../support/until.ts';
import '../support/watch-leaks.ts';
import { inParallel } from './operations.ts';
import { aTarget, type Target } from './target.ts';

const NAMES = 500;

/** What a client sees of an answer. */
function shape({ statusCode, headers, body }: Awaited<ReturnType<typeof call>>): string {
  const others = { ...headers, date: undefined, 'x-request-id': undefined };
  return JSON.stringify([statusCode, others, body.replace(/"request_id":"[^"]*"/, '')]);
}

test('nobody learns from a reset request whether there is an account', async (t) => {
  const target = await aTarget(t, { TRUST_PROXY: 'loopback' });
  const { databaseUrl } = target;
  const known = Array.from({ length: NAMES }, () => anAccount());
  await sql(
    databaseUrl,
    `INSERT INTO users (username, username_skeleton, email, name, password_hash)
     SELECT name, name, name || '@example.com', 'Ada', 'x' FROM unnest($1::text[]) AS name`,
    [known.map(({ username }) => username)],
  );
  const unknown = Array.from({ length: NAMES }, () => anAccount());

  await t.test('500 names with and 500 without an account get one answer, before any look-up', async (t) => {
    const locks = await aClient(t, databaseUrl);
    const names = known.flatMap(({ username }, i) => [username, unknown[i]?.username ?? '']);
    const answersTo = async (asked: string[]) => {
      const shapes = new Set<string>();
      await inParallel(asked, async (name) => {
        shapes.add(shape(await requestReset(target, name)));
      });
      return [...shapes];
    };
    // No look-up can read an account, and no commit of a wish can end: an answer that waits for one never comes.
    await locks.query('BEGIN');
    await locks.query('LOCK users, wanted_mails IN ACCESS EXCLUSIVE MODE');
    await requestReset(target, names[0] ?? '');
    const looking = lookUp(target).catch(() => undefined);
    const [answer = '', ...others] = await answersTo(names);
    t.match(answer, /^\[200,/);
    t.strictSame(others, []);
    // The queue is full now, and refuses those that wait as well as all others.
    const [refusal = '', ...refusals] = await answersTo([
      ...names.slice(0, 2),
      known[0]?.email ?? '',
      'no name',
    ]);
    t.match(refusal, /^\[503,.*overloaded/);
    t.strictSame(refusals, []);
    // Another network takes a place of this one, whatever it asks for.
    const elsewhere = { 'x-forwarded-for': '203.0.113.9' };
    for (const name of [known[0]?.email ?? '', anAccount().username, 'no name'])
      t.equal(shape(await requestReset(target, name, elsewhere)), answer);
    await locks.query('COMMIT');
    await looking;
    await lookUp(target);
    const [row] = await sql<{ count: number }>(
      databaseUrl,
      'SELECT count(*)::int AS count FROM wanted_mails',
    );
    t.ok(row && row.count >= NAMES - 2, 'two names gave way');
  });

  await t.test('a request and its look-up are the same work for every name', async (t) => {
    const other = anAccount();
    const { user } = await signUp(target, other);
    await disableAccount(databaseUrl, { id: user.id });
    const limited = known[2]?.username ?? '';
    for (let i = 0; i < 4; i++) {
      await wantReset(target, limited);
      await sql(databaseUrl, 'UPDATE wanted_mails SET settled_at = now()');
    }
    const work = async (name: string) => [
      await workDone(t, () => requestReset(target, name)),
      await workDone(t, () => lookUp(target)),
    ];
    const first = await work('unknown-name');
    t.ok(first[1]?.some((statement) => statement.includes('INSERT INTO wanted_mails')));
    t.notOk(JSON.stringify(first[0]).includes('users'), 'the request asks for no account');
    for (const name of [known[3]?.username ?? '', limited, other.username, 'unknown-too'])
      t.strictSame(await work(name), first);
  });

  await t.test('100 callers cause 3 mails an hour', async (t) => {
    await letPass(databaseUrl, 2 * 3600);
    const mailer = await aMailer(target, 'busy mailer');
    const account = anAccount();
    await signUp(target, account);
    let mails = 0;
    for (let i = 0; i < 100; i++) {
      t.equal((await requestReset(target, i % 2 === 0 ? account.username : account.email)).statusCode, 200);
      await lookUp(target);
      for (const { id } of await mailer.take()) {
        mails++;
        await mailer.settle(id);
      }
    }
    t.equal(mails, 3);
  });

  await t.test('a service with every other right takes no mail, and reads no address', async (t) => {
    for (const right of ['mails', 'users.email'] as const) {
      const others = RIGHTS.filter((each) => each !== right);
      const without = managerOf(target, await aRegisteredService(databaseUrl, `all but ${right}`, others));
      for (const [line, body] of ACCOUNT_RIGHTS(target.pair.user.id)[right] ?? []) {
        const response = await without(line, body);
        refused(t, response, 403, 'right_missing');
        t.notOk(response.body.includes(target.account.email));
      }
    }
  });

  await t.test('no other kind of token does anything with mails', async (t) => {
    const { access_token: token, refresh_token } = target.pair;
    const { longlived_token: llt } = await createLongLived(target, token);
    for (const right of ['mails', 'users.email'])
      for (const [line, body] of ACCOUNT_RIGHTS(target.pair.user.id)[right] ?? [])
        for (const each of [token, llt, refresh_token])
          refused(
            t,
            await call(target, line, { token: each, ...(body && { payload: body }) }),
            401,
            'invalid_token',
          );
    for (const line of ['GET /api/user/email', 'POST /api/user/email-verification']) {
      refused(t, await call(target, line, { token: refresh_token }), 401, 'invalid_token');
      refused(t, await call(target, line, { token: llt }), 403, 'token_not_allowed');
      refused(t, await call(target, line, { headers: basic(target.client) }), 401, 'token_missing');
    }
    for (const each of [token, llt, refresh_token])
      refused(t, await verifyEmail(target, each), 401, 'invalid_verification_token');
  });

  await t.test(
    'no reader of the feed sees a request or a mail, and of a proof only that it changed the user',
    async (t) => {
      target.composition.start();
      const feed = aFeedClient(t, {
        url: () => target.url,
        authorization: basic(target.client).authorization,
      });
      await until(() => feed.events.length > 0);
      const mailer = await aMailer(target);
      const account = anAccount();
      const { access_token: token, user } = await signUp(target, account);
      const ofUser = () => feed.events.filter(({ data }) => data.user === user.id).map(({ event }) => event);
      await wantReset(target, account.username);
      await call(target, 'POST /api/user/email-verification', { token });
      const mails = await mailer.take(100);
      t.equal(mails.length, 2);
      for (const mail of mails) {
        if (mail.kind === 'email_verification')
          t.equal((await verifyEmail(target, mail.token)).statusCode, 200);
        await mailer.settle(mail.id);
      }
      await call(target, 'DELETE /api/auth', { token });
      await until(() => ofUser().includes('revoked'));
      t.strictSame(ofUser(), ['user_created', 'user_changed', 'revoked']);
      t.notOk(JSON.stringify(feed.events).includes('@'));
    },
  );
});

const [HOME, AWAY] = ['198.51.100.7', '203.0.113.9'].map((address) => ({
  'x-forwarded-for': address,
  'user-agent': `of ${address}`,
}));
/** Each of a network of its own. */
const STRANGERS = Array.from({ length: 100 }, (_, i) => ({ 'x-forwarded-for': `192.0.${i}.1` }));

/** An owner, who has logged in at HOME. */
async function anOwner(target: Target) {
  const account = anAccount();
  const headers = { ...HOME };
  const pair = pairOf(await call(target, 'POST /api/auth/signup', { payload: account, headers }));
  pairOf(
    await call(target, 'POST /api/auth', {
      payload: { username: account.username, password: account.password },
      headers,
    }),
  );
  return { account, pair };
}

test('strangers of 100 networks keep no owner from a reset', async (t) => {
  const target = await aTarget(t, { TRUST_PROXY: 'loopback' });
  const { databaseUrl } = target;
  const mailer = await aMailer(target);
  const { account, pair } = await anOwner(target);
  const token = { authorization: `Bearer ${pair.refresh_token}` };

  /** Tokens of the mails that the requests have caused. */
  const ask = async (...requests: Record<string, string>[]): Promise<string[]> => {
    for (const [i, headers] of requests.entries())
      t.equal(
        (await requestReset(target, i % 2 === 0 ? account.username : account.email, headers)).statusCode,
        200,
      );
    await lookUp(target);
    const mails = await mailer.take(100);
    for (const { id } of mails) await mailer.settle(id);
    return mails.filter(({ user }) => user.id === pair.user.id).map((mail) => mail.token);
  };
  /** A password that is refused does not use it up. */
  const isGood = async (reset = '') => (await redeem(target, reset, 'short')).statusCode === 400;

  await t.test('at a new device, there is a mail whose token is good', async (t) => {
    // For as long as the strangers go on.
    for (let round = 0; round < 3; round++) {
      const mails: string[] = [];
      for (let storm = 0; storm < 5; storm++) mails.push(...(await ask(...STRANGERS)));
      t.equal(mails.length, 3);
      for (let minutes = 0; minutes < 25; minutes += 5) {
        mails.push(...(await ask({ ...AWAY })));
        t.ok(await isGood(mails.at(-1)), `after ${minutes} minutes`);
        await letPass(databaseUrl, 5 * 60);
      }
      await letPass(databaseUrl, 6 * 60);
    }
  });

  await t.test('a known device has requests of its own, and so has a session elsewhere', async (t) => {
    await letPass(databaseUrl, 2 * 3600);
    const mails: string[] = [];
    for (let storm = 0; storm < 5; storm++) mails.push(...(await ask(...STRANGERS)));
    t.strictSame(await ask({ ...AWAY }), [], 'a new device gets no more');
    for (const known of [HOME, { ...AWAY, ...token }, HOME]) {
      const [mail, ...others] = await ask({ ...known });
      t.ok(mail);
      t.strictSame(others, []);
      mails.push(mail ?? '');
    }
    t.strictSame(await ask({ ...HOME }, { ...AWAY, ...token }), [], 'three');
    for (const mail of mails) t.ok(await isGood(mail), 'the newest mails void none of them');
    t.equal((await redeem(target, mails[0] ?? '')).statusCode, 200);
    for (const mail of mails) t.notOk(await isGood(mail), 'and its use all');
  });

  await t.test('a full queue of their names has room for the owner', async (t) => {
    await letPass(databaseUrl, 2 * 3600);
    for (const headers of STRANGERS)
      for (let i = 0; i < 10; i++)
        t.equal((await requestReset(target, `nobody-${i}`, headers)).statusCode, 200);
    refused(t, await requestReset(target, 'nobody-10', { ...STRANGERS[0] }), 503, 'overloaded');
    t.equal((await ask({ ...AWAY })).length, 1);
  });
});

test('strangers in the network of an owner use up no request of its session', async (t) => {
  const target = await aTarget(t, {
    TRUST_PROXY: 'loopback',
    RATE_LIMIT_NETWORK: '20/3600',
    RATE_LIMIT_ACCOUNT: '5/3600',
  });
  const { account, pair } = await anOwner(target);
  const stranger = { 'x-forwarded-for': '198.51.100.99' };
  const token = { authorization: `Bearer ${pair.refresh_token}` };
  for (let i = 0; i < 20; i++) t.equal((await requestReset(target, `nobody-${i}`, stranger)).statusCode, 200);
  refused(t, await requestReset(target, account.username, { ...HOME }), 429, 'rate_limited');
  for (let i = 0; i < 5; i++)
    t.equal((await requestReset(target, account.username, { ...HOME, ...token })).statusCode, 200);
  refused(t, await requestReset(target, account.username, { ...HOME, ...token }), 429, 'rate_limited');
  // Whatever it holds: nobody learns whether a token is good.
  for (const other of [pair.access_token, 'x'])
    refused(
      t,
      await requestReset(target, account.username, { ...HOME, authorization: `Bearer ${other}` }),
      429,
      'rate_limited',
    );
});
