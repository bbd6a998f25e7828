import type { Test } from 'tap';
import { buildTestApp } from '../../support/app.ts';
import {
  anAccount,
  call,
  claimsOf,
  createLongLived,
  logIn,
  pairOf,
  refresh,
  signUp,
  verify,
  type Pair,
} from '../../support/client.ts';
import { onEachLasting } from '../../support/lasting.ts';
import { refused } from '../../support/problem.ts';
import { onAStore } from '../../support/stores.ts';

const ROUTE = 'DELETE /api/auth';

onAStore('logout', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const { username, ...account } = anAccount();
  await signUp(target, { username, ...account });
  const open = () => logIn(target, username);
  const idOf = ({ access_token: token }: Pair) => Number(claimsOf(token).sid);
  const isOver = async (t: Test, pair: Pair) => {
    refused(t, await verify(target, pair.access_token), 401, 'invalid_token');
    refused(t, await refresh(target, pair.refresh_token), 401, 'invalid_token');
  };
  const lives = async (t: Test, pair: Pair) => {
    t.equal((await verify(target, pair.access_token)).statusCode, 200);
  };

  await t.test('ends the whole session, and a repeat gets the same answer', async (t) => {
    const [pair, other] = [await open(), await open()];
    for (let i = 0; i < 2; i++) {
      const response = await call(target, ROUTE, { token: pair.access_token });
      t.equal(response.statusCode, 200);
      t.strictSame(Object.keys(response.json()), ['msg']);
      t.equal(response.headers['cache-control'], 'no-store');
      await isOver(t, pair);
    }
    await lives(t, other);
  });

  await t.test('accepts an access token that a refresh has superseded', async (t) => {
    const pair = await open();
    const next = pairOf(await refresh(target, pair.refresh_token));
    refused(t, await verify(target, pair.access_token), 401, 'invalid_token');
    const id = idOf(pair);
    for (const line of [ROUTE, `${ROUTE}?id=${id}`, `${ROUTE}/${id}`] as const) {
      t.equal((await call(target, line, { token: pair.access_token })).statusCode, 200, line);
    }
    await isOver(t, next);
  });

  await onEachLasting(
    t,
    'ends another session or long-lived token by id, in path, query or both',
    async (t, lasting) => {
      const { createLongLived, verify } = lasting;
      const { access_token: token } = await open();
      for (const line of [
        (id: number) => `${ROUTE}/${id}` as const,
        (id: number) => `${ROUTE}?id=${id}` as const,
        (id: number) => `${ROUTE}/${id}?id=${id}` as const,
        (id: number) => `DELETE /api/user/tokens/${id}` as const,
      ]) {
        const pair = await open();
        const { id, longlived_token: llt } = await createLongLived(target, token);
        for (let i = 0; i < 2; i++) {
          const responses = [idOf(pair), id].map((each) => call(target, line(each), { token }));
          for (const response of await Promise.all(responses))
            t.equal(response.statusCode, 200, response.body);
        }
        await isOver(t, pair);
        refused(t, await verify(target, llt), 401, 'invalid_token');
      }
      t.equal((await verify(target, token)).statusCode, 200);
    },
  );

  await t.test('refuses a malformed id, and revokes nothing', async (t) => {
    const [pair, other] = [await open(), await open()];
    const [own, id] = [idOf(pair), idOf(other)];
    const bad = ['0', '07', '1e1', 'abc', '9007199254740992'].flatMap((text) => [`/${text}`, `?id=${text}`]);
    for (const line of [...bad, '?id=', `?id=${own}&id=${own}`, `/${own}?id=${id}`, '?all=true']) {
      refused(t, await call(target, ROUTE + line, { token: pair.access_token }), 400, 'validation_failed');
      refused(t, await call(target, ROUTE + line), 401, 'token_missing');
    }
    for (const each of [pair, other]) await lives(t, each);
  });

  await t.test('refuses a body with content, and revokes nothing', async (t) => {
    const pair = await open();
    const headers = { 'content-type': 'application/json' };
    for (const payload of [`{"id":${idOf(pair)}}`, '[]', 'null', '0', '""', 'false']) {
      const response = await call(target, ROUTE, { token: pair.access_token, headers, payload });
      refused(t, response, 400, 'validation_failed');
    }
    const broken = await call(target, ROUTE, { token: pair.access_token, headers, payload: '{' });
    refused(t, broken, 400, 'malformed_json');
    await lives(t, pair);
  });

  await t.test('returns not found for another user’s token and for an id never issued', async (t) => {
    const { access_token: token } = await open();
    const stranger = await signUp(target);
    const { id } = await createLongLived(target, stranger.access_token);
    for (const unknown of [idOf(stranger), id, Number.MAX_SAFE_INTEGER]) {
      refused(t, await call(target, `${ROUTE}/${unknown}`, { token }), 401, 'token_unknown');
      refused(t, await call(target, `${ROUTE}?id=${unknown}`, { token }), 401, 'token_unknown');
      refused(t, await call(target, `DELETE /api/user/tokens/${unknown}`, { token }), 401, 'token_unknown');
    }
    await lives(t, stranger);
  });

  await onEachLasting(
    t,
    'ends the long-lived token that asks, which can end no other token',
    async (t, lasting) => {
      const { createLongLived, verify } = lasting;
      const pair = await open();
      const { id, longlived_token: token } = await createLongLived(target, pair.access_token);
      for (const line of [`/${idOf(pair)}`, `?id=${idOf(pair)}`, '/1', '/9007199254740991'] as const) {
        refused(t, await call(target, `${ROUTE}${line}`, { token }), 403, 'token_not_allowed');
      }
      const own = [ROUTE, `${ROUTE}/${id}`, `${ROUTE}?id=${id}`, `DELETE /api/user/tokens/${id}`] as const;
      for (const line of own) {
        t.equal((await call(target, line, { token })).statusCode, 200);
        refused(t, await verify(target, token), 401, 'invalid_token');
      }
      await lives(t, pair);
    },
  );
});
