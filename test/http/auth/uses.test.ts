import type { Test } from 'tap';
import { SYSTEM_CLOCK } from '../../../packages/verifier/src/clock.ts';
import { makeVerifier } from '../../../packages/verifier/src/create-verifier.ts';
import type { Environment } from '../../../src/config/config.ts';
import { callRight, RIGHTS } from '../../../src/domain/rights.ts';
import { buildTestApp } from '../../support/app.ts';
import { audienceClients } from '../../support/audiences.ts';
import {
  bearer,
  call,
  claimsOf,
  createLimited,
  createLongLived,
  signUp,
  verify,
} from '../../support/client.ts';
import { refused } from '../../support/problem.ts';
import { aRegisteredService, basic } from '../../support/registered-service.ts';
import { serviceToken } from '../../support/service-tokens.ts';
import { sql } from '../../support/sql.ts';
import { onAStore } from '../../support/stores.ts';
import { until } from '../../support/until.ts';
import { written } from '../../support/written.ts';

const PATH = 'POST /api/auth/uses';
const HOUR = 3_600_000;

/** A running replica with a user, whose tokens the services name. */
async function aWorld(t: Test, env: Environment) {
  const target = await buildTestApp(t, { env });
  target.composition.start();
  const { databaseUrl } = target;
  const headers = basic(await aRegisteredService(databaseUrl, 'shop', ['introspect']));
  const { access_token: access } = await signUp(target);
  const report = (tokens: unknown) => call(target, PATH, { headers, payload: { tokens } });
  const list = async () => {
    const { tokens } = (await call(target, 'GET /api/user', { token: access })).json<{
      tokens: { id: number; last_used_at: string | null }[];
    }>();
    return new Map(tokens.map(({ id, last_used_at: at }) => [id, at === null ? null : Date.parse(at)]));
  };
  /** Makes it seem to have been used that long ago, on record alone. */
  const age = (id: number, ms: number) =>
    sql(databaseUrl, 'UPDATE tokens SET last_used_at = $2 WHERE id = $1', [id, new Date(Date.now() - ms)]);
  return { target, databaseUrl, access, report, list, age };
}

onAStore('reported uses', async (t, env) => {
  const world = await aWorld(t, env);
  const { target, databaseUrl, access, report, list, age } = world;
  const { id: llt, longlived_token: token } = await createLongLived(target, access);
  const { id: limited } = await createLimited(target, access, ['orders:read']);

  await t.test('show in the owner’s list, of long-lived and limited tokens', async (t) => {
    const since = Date.now();
    const response = await report([llt, limited, llt]);
    t.equal(response.statusCode, 200);
    t.strictSame(response.json(), { msg: 'received' });
    await written(target);
    for (const id of [llt, limited]) t.ok(((await list()).get(id) ?? 0) >= since, `${id}`);
  });

  await t.test('move it at most once a minute', async (t) => {
    for (const [ago, moves] of [
      [50_000, false],
      [70_000, true],
    ] as const) {
      await age(limited, ago);
      const before = (await list()).get(limited) ?? 0;
      await report([limited]);
      await written(target);
      t.equal(((await list()).get(limited) ?? 0) > before, moves, `after ${ago} ms`);
    }
  });

  await t.test('count beside those that Latchkey saw itself: the later one is shown', async (t) => {
    t.equal((await verify(target, token)).statusCode, 200);
    await written(target);
    const seen = (await list()).get(llt) ?? 0;
    await age(llt, HOUR);
    t.equal((await list()).get(llt), seen, 'on record it is earlier');
    await new Promise((resolve) => setTimeout(resolve, 5));
    await report([llt]);
    await written(target);
    t.ok(((await list()).get(llt) ?? 0) > seen, 'on record it is later');
  });

  await t.test('change nothing about a session, an ended token or an unknown id', async (t) => {
    const session = Number(claimsOf(access).sid);
    const [ended, expired] = [await createLongLived(target, access), await createLongLived(target, access)];
    await call(target, `DELETE /api/auth/llt/${ended.id}`, { token: access });
    await sql(databaseUrl, 'UPDATE tokens SET expires_at = now() WHERE id = $1', [expired.id]);
    await written(target);
    const rows = () => sql(databaseUrl, 'SELECT * FROM tokens ORDER BY id');
    const before = await rows();
    t.equal(
      (await report([session, ended.id, expired.id, 999_999, Number.MAX_SAFE_INTEGER])).statusCode,
      200,
    );
    await written(target);
    t.strictSame(await rows(), before);
  });

  await t.test('may be reported by a service with its own token, also with its own audience', async (t) => {
    const { orders } = await audienceClients(databaseUrl);
    const issuer = 'http://localhost:3000';
    for (const headers of [basic(orders), bearer(await serviceToken(target, orders, issuer))]) {
      await age(limited, HOUR);
      const since = Date.now();
      t.equal((await call(target, PATH, { headers, payload: { tokens: [limited] } })).statusCode, 200);
      await written(target);
      t.ok(((await list()).get(limited) ?? 0) >= since);
    }
  });

  await t.test('a request that names no tokens is 400', async (t) => {
    await age(limited, HOUR);
    const before = await list();
    const many = Array.from({ length: 501 }, (_, i) => limited + i);
    for (const tokens of [
      [],
      many,
      undefined,
      null,
      limited,
      {},
      [String(limited)],
      [limited, 'x'],
      [limited + 0.5],
      [0],
      [-limited],
      [2 ** 53],
      [null],
      [[limited]],
    ])
      refused(t, await report(tokens), 400, 'validation_failed');
    await written(target);
    t.strictSame(await list(), before);
    t.equal((await report(many.slice(1))).statusCode, 200, '500');
  });
});

onAStore('a verifier reports what it has answered from memory', async (t, env) => {
  const { target, databaseUrl, access, list, age } = await aWorld(t, env);
  const { id, longlived_token: token } = await createLongLived(target, access);
  const { serviceId, secret } = await aRegisteredService(databaseUrl, 'reader');
  const verifier = makeVerifier(
    {
      issuer: 'http://localhost:3000',
      audience: 'latchkey',
      url: await target.app.listen({ port: 0 }),
      client: { id: serviceId, secret },
    },
    SYSTEM_CLOCK,
    { interval: 50 },
  );
  t.teardown(() => verifier.close());
  await verifier.ready();
  await verifier.verify(token);
  await written(target);
  await age(id, HOUR);
  const asked = (await list()).get(id) ?? 0;
  await verifier.verify(token);
  await until(async () => ((await list()).get(id) ?? 0) > asked);
});

onAStore('a service without the right reports nothing', async (t, env) => {
  const { target, databaseUrl, access, list } = await aWorld(t, env);
  const { id, longlived_token: token } = await createLongLived(target, access);
  const payload = { tokens: [id] };
  const ask = (headers: Record<string, string>) => call(target, PATH, { headers, payload });
  const others = [...RIGHTS.filter((right) => right !== 'introspect'), callRight('orders')];
  const alone = others.map((right) => aRegisteredService(databaseUrl, `only ${right}`, [right]));
  for (const response of await Promise.all((await Promise.all(alone)).map((service) => ask(basic(service)))))
    refused(t, response, 403, 'right_missing');
  refused(t, await ask({}), 401, 'invalid_client');
  for (const each of [access, token]) refused(t, await ask(bearer(each)), 401, 'invalid_token');
  await written(target);
  t.equal((await list()).get(id), null);
});
