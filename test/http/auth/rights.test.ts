import { test, type Test } from 'tap';
import type { Right } from '../../../src/domain/rights.ts';
import { buildTestApp, type TestApp } from '../../support/app.ts';
import { call, signUp, verify } from '../../support/client.ts';
import { refused } from '../../support/problem.ts';
import {
  aRegisteredService,
  basic,
  introspect,
  revoke,
  withRegistry,
  type TestService,
} from '../../support/registered-service.ts';
import { workDone } from '../../support/spy.ts';
import { onAStore } from '../../support/stores.ts';
import { until } from '../../support/until.ts';

/** What each right admits to; a token of a user is at hand. */
const OPERATIONS: Partial<
  Record<Right, (target: TestApp, client: TestService, token: string) => ReturnType<typeof call>>
> = {
  introspect,
  revoke,
};

function missing(t: Test, response: Awaited<ReturnType<typeof call>>, right: Right, oauth?: string): void {
  refused(t, response, 403, 'right_missing', undefined, oauth);
  t.ok(response.json<{ detail: string }>().detail.includes(` ${right}.`), 'the detail names the right');
}

onAStore('a service may do what it has the right to, and nothing else', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const { access_token: token } = await signUp(target);
  for (const [right, ask] of Object.entries(OPERATIONS) as [Right, (typeof OPERATIONS)[Right] & object][]) {
    const others = (['introspect', 'revoke', 'revocations', 'users.read'] as const).filter(
      (each) => each !== right,
    );
    const without = await aRegisteredService(target.databaseUrl, `all but ${right}`, others);
    const holder = await aRegisteredService(target.databaseUrl, `only ${right}`, [right]);
    missing(t, await ask(target, without, token), right, 'unauthorized_client');
    t.equal((await verify(target, token)).statusCode, 200, 'nothing happened');
    t.equal((await ask(target, holder, token)).statusCode, 200);
  }
  t.equal((await verify(target, token)).statusCode, 401, 'the right to revoke ended it');
});

onAStore('the feed needs its right, and ends for a reader that loses it', async (t, env) => {
  const target = await buildTestApp(t, { env });
  target.composition.start();
  const url = await target.app.listen({ port: 0 });
  const without = await aRegisteredService(target.databaseUrl, 'a', ['introspect', 'revoke']);
  const path = 'GET /api/auth/revocations';
  missing(t, await call(target, path, { headers: basic(without) }), 'revocations');

  const holder = await aRegisteredService(target.databaseUrl, 'b', ['revocations']);
  const response = await fetch(`${url}/api/auth/revocations`, { headers: basic(holder) });
  t.equal(response.status, 200);
  let hasEnded = false;
  const reading = (async () => {
    for await (const chunk of response.body ?? []) if (chunk === undefined) break;
    hasEnded = true;
  })();
  await withRegistry(target.databaseUrl, (registry) => registry.allow('b', ['introspect']));
  await until(() => hasEnded);
  await reading;
  missing(t, await call(target, path, { headers: basic(holder) }), 'revocations');
});

test('a right given to a running service counts at once; the check itself asks no store', async (t) => {
  const target = await buildTestApp(t);
  const { access_token: token } = await signUp(target);
  const client = await aRegisteredService(target.databaseUrl, 'billing', ['revoke']);
  missing(t, await introspect(target, client, token), 'introspect', 'unauthorized_client');
  await withRegistry(target.databaseUrl, (registry) => registry.allow('billing', ['introspect']));
  t.match((await introspect(target, client, token)).json(), { active: true });
  t.strictSame(await workDone(t, () => introspect(target, client, token)), []);
});
