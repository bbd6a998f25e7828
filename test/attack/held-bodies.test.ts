import type { IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { once } from 'node:events';
import { test, type Test } from 'tap';
import { RIGHTS } from '../../src/domain/rights.ts';
import type { Environment } from '../../src/config/config.ts';
import { buildTestApp, type TestApp } from '../support/app.ts';
import { audienceClients, exchangeForm } from '../support/audiences.ts';
import { bearer, call } from '../support/client.ts';
import {
  aShiftedClock,
  aVictim,
  ENDINGS_ENVIRONMENT,
  effectsOn,
  liveTokens,
  RECORDED_ENDINGS,
  TOKEN_ENDINGS,
  type Victim,
} from '../support/endings.ts';
import { aFactor } from '../support/factors.ts';
import { FACTOR_PASSWORD, setUpApp } from '../support/own-factors.ts';
import { aBrowser, created, enrolmentOptions, PASSKEYS } from '../support/passkeys.ts';
import { answersIn } from '../support/raw.ts';
import { aPendingAddress } from '../support/resets.ts';
import { routesOf } from '../support/routes.ts';
import { aRegisteredService, basic, withRegistry } from '../support/registered-service.ts';
import { serviceToken } from '../support/service-tokens.ts';
import { onAStore } from '../support/stores.ts';
import { withFactorClaims } from '../support/tokens.ts';
import { until } from '../support/until.ts';
import '../support/watch-leaks.ts';

/**
 * The threat: a client sends the head of a request while its session is good. It holds the body back until the session
 * has ended, then sends the body.
 */
interface Attack {
  /** Method and path. */
  line: (victim: Victim) => string;
  body: object;
  /** What must be there before: changes the victim, and the attack. */
  prepare?: (target: TestApp, victim: Victim) => Promise<Partial<Attack>>;
  /** Whether the account has a second factor, without which nobody logs in to it. */
  hasFactor?: true;
}

/** The account gets a second factor, with which the caller's session seems to have been opened. */
async function addFactor(target: TestApp, victim: Victim): Promise<number> {
  const { id } = await aFactor(target, victim.caller);
  victim.caller.access_token = await withFactorClaims(target, victim.caller.access_token);
  return id;
}

/** By default. */
const ISSUER = 'http://localhost:3000';

/** Every route on which a token's owner changes something. The guard below fails if a route is missing here. */
const CHANGES: Record<string, Attack> = {
  'POST /api/auth/llt': { line: () => 'POST /api/auth/llt', body: { device: 'of a thief' } },
  'DELETE /api/auth': { line: ({ otherId }) => `DELETE /api/auth?id=${otherId}`, body: {} },
  'DELETE /api/auth/:id': { line: ({ otherId }) => `DELETE /api/auth/${otherId}`, body: {} },
  'DELETE /api/auth/llt/:id': { line: ({ llt }) => `DELETE /api/auth/llt/${llt.id}`, body: {} },
  'POST /api/user/password': {
    line: () => 'POST /api/user/password',
    body: { current_password: 'difference engine', new_password: 'of a thief, and long' },
  },
  'PATCH /api/user': {
    line: () => 'PATCH /api/user',
    body: { name: 'A thief', current_password: 'difference engine' },
  },
  'POST /api/user/email-verification': { line: () => 'POST /api/user/email-verification', body: {} },
  'POST /api/user/email': {
    line: () => 'POST /api/user/email',
    body: {},
    prepare: async ({ databaseUrl }, { userId }) => ({
      body: { verification_token: await aPendingAddress(databaseUrl, userId, `thief.${userId}@example.com`) },
    }),
  },
  'POST /api/user/tokens': {
    line: () => 'POST /api/user/tokens',
    body: { name: 'of a thief', scopes: ['orders:read'] },
  },
  'DELETE /api/user/tokens/:id': { line: ({ otherId }) => `DELETE /api/user/tokens/${otherId}`, body: {} },
  'DELETE /api/user/tokens': { line: () => 'DELETE /api/user/tokens?keep=current', body: {} },
  'POST /api/user/factors/totp': { line: () => 'POST /api/user/factors/totp', body: FACTOR_PASSWORD },
  'POST /api/user/factors/totp/confirm': {
    line: () => 'POST /api/user/factors/totp/confirm',
    body: {},
    prepare: async (target, { caller }) => ({
      body: { code: (await setUpApp(target, caller.access_token)).code() },
    }),
  },
  'POST /api/user/factors/passkey': { line: () => 'POST /api/user/factors/passkey', body: FACTOR_PASSWORD },
  'POST /api/user/factors/passkey/confirm': {
    line: () => 'POST /api/user/factors/passkey/confirm',
    body: {},
    prepare: async (target, { caller }) => {
      const passkey = created(aBrowser(), await enrolmentOptions(target, caller.access_token));
      return { body: { name: 'of a thief', passkey } };
    },
  },
  'POST /api/user/factors/recovery-codes': {
    line: () => 'POST /api/user/factors/recovery-codes',
    body: FACTOR_PASSWORD,
    prepare: async (target, victim) => {
      await addFactor(target, victim);
      return {};
    },
    hasFactor: true,
  },
  'POST /api/user/factors/:id/removal': {
    line: () => '',
    body: FACTOR_PASSWORD,
    prepare: async (target, victim) => {
      const id = await addFactor(target, victim);
      return { line: () => `POST /api/user/factors/${id}/removal` };
    },
    hasFactor: true,
  },
};

/** A victim's client sends this too: a repeat returns 200 if everything has ended already. */
const EVERYWHERE: Attack = { line: () => 'DELETE /api/user/tokens', body: {} };

/** Routes whose body needs no session, or that belong to a registered service (below). */
const OTHERS = [
  'POST /api/auth',
  'POST /api/auth/second-factor',
  'POST /api/auth/passkey',
  'POST /api/auth/signup',
  'POST /api/auth/password-reset',
  'POST /api/auth/password-reset-request',
  'POST /api/auth/email-verification',
  'POST /api/auth/introspect',
  'POST /api/auth/revoke',
  'POST /api/auth/uses',
  'PUT /api/auth/revocations/readers/:reader',
  'DELETE /api/auth/revocations/readers/:reader',
  'POST /api/auth/token',
  'POST /api/users',
  'PATCH /api/users/:id',
  'DELETE /api/users/:id',
  'DELETE /api/users/:id/tokens',
  'DELETE /api/users/:id/factors',
  'POST /api/users/:id/password-reset',
  'POST /api/users/:id/invitation',
  'POST /api/users/mails',
  'POST /api/users/mails/undeliverable',
  'DELETE /api/users/mails/:id',
];

test('every route that changes something is attacked here', async (t) => {
  const built: TestApp[] = [];
  const routes = await routesOf(async () => built.push(await buildTestApp(t)));
  const [target] = built;
  if (!target) throw new Error('no app was built');
  const changing: string[] = [];
  for (const { method, url } of routes) {
    if (['GET', 'HEAD', 'OPTIONS', 'TRACE'].includes(method) || /\/verify(\/\*)?$/.test(url)) continue;
    const response = await call(target, `${method} ${url.replace(':id', '1')}`);
    if (response.statusCode !== 405) changing.push(`${method} ${url}`);
  }
  t.strictSame(changing.sort(), [...Object.keys(CHANGES), ...OTHERS].sort());
});

onAStore('a held-back body', async (t, env) => {
  const { target, clock } = await listening(t, env);
  const endings = { ...RECORDED_ENDINGS, ...TOKEN_ENDINGS };
  for (const [route, planned] of [...Object.entries(CHANGES), ['everywhere', EVERYWHERE] as const]) {
    const prepared = async (victim: Victim) => ({
      ...planned,
      ...(await planned.prepare?.(target, victim)),
    });
    await t.test(`${route} takes effect while the session is good`, async (t) => {
      const victim = await aVictim(target);
      const attack = await prepared(victim);
      const before = await effectsOn(target, victim);
      const held = await holdBody(target, attack.line(victim), victim.caller.access_token, attack.body);
      t.equal((await held.send()).status, 200);
      t.notSame(await effectsOn(target, victim), before);
    });

    for (const [name, end] of Object.entries(endings)) {
      if (planned.hasFactor && name === 'replacement') continue;
      await t.test(`${route} has no effect after ${name}`, async (t) => {
        const victim = await aVictim(target);
        const attack = await prepared(victim);
        const held = await holdBody(target, attack.line(victim), victim.caller.access_token, attack.body);
        await end(target, victim, clock);
        const before = await effectsOn(target, victim);
        const { status, body } = await held.send();
        clock.shift = 0;
        // Everything has ended already, as requested.
        const isDone = planned === EVERYWHERE && name === 'log out everywhere';
        t.equal(status, isDone ? 200 : 401, body);
        if (isDone) t.match(JSON.parse(body), { ended: 0 });
        t.strictSame(await effectsOn(target, victim), before);
      });
    }
  }
});

onAStore('an exchange whose body is held back gives no token once the subject has ended', async (t, env) => {
  const { target, clock } = await listening(t, env);
  const { gateway } = await audienceClients(target.databaseUrl);
  for (const [name, end] of Object.entries({ ...RECORDED_ENDINGS, ...TOKEN_ENDINGS })) {
    if (name === 'disabling the user') continue; // Only the sweep of a running replica learns of it.
    for (const by of [null, gateway]) {
      const victim = await aVictim(target);
      const subject = victim.caller.access_token;
      const authorization = by ? basic(by).authorization : `Bearer ${subject}`;
      const form = new URLSearchParams(exchangeForm(subject, 'orders')).toString();
      const hold = () => holdRaw(target, 'POST /api/auth/token', authorization, form);
      t.equal((await (await hold()).send()).status, 200);
      const held = await hold();
      await end(target, victim, clock);
      const { status, body } = await held.send();
      clock.shift = 0;
      t.equal(status, 400, `${name}: ${body}`);
      t.match(JSON.parse(body), { code: 'invalid_subject_token' });
    }
  }
});

test('a service that loses its right while it holds its body back gets no token', async (t) => {
  const { target } = await listening(t, {});
  const { gateway } = await audienceClients(target.databaseUrl);
  const subject = (await aVictim(target)).caller.access_token;
  const form = new URLSearchParams(exchangeForm(subject, 'orders')).toString();
  const held = await holdRaw(target, 'POST /api/auth/token', basic(gateway).authorization, form);
  await withRegistry(target.databaseUrl, (registry) => registry.allow('gateway', ['introspect']));
  // An unknown secret makes the directory load again.
  await call(target, 'POST /api/auth/introspect', { headers: basic({ ...gateway, secret: 'lks_unknown' }) });
  t.equal((await held.send()).status, 403);
});

for (const kind of ['secret', 'service token'] as const) {
  test(`a service that is deleted while it holds its body back ends no token, by its ${kind}`, async (t) => {
    const { target } = await listening(t, {});
    const victim = await aVictim(target);
    let service = await aRegisteredService(target.databaseUrl, 'billing', RIGHTS);
    const form = new URLSearchParams({ token: victim.caller.access_token }).toString();
    for (const [line, deleted] of [
      ['POST /api/auth/introspect', false],
      ['POST /api/auth/revoke', true],
      ['POST /api/auth/introspect', true],
      [`DELETE /api/users/${victim.userId}/tokens`, true],
      [`DELETE /api/users/${victim.userId}`, true],
    ] as const) {
      const body = line.startsWith('POST') ? form : '{}';
      const type = line.startsWith('POST') ? FORM : 'application/json';
      const { authorization } =
        kind === 'secret' ? basic(service) : bearer(await serviceToken(target, service, ISSUER));
      const held = await holdRaw(target, line, authorization, body, type);
      if (deleted) {
        await withRegistry(target.databaseUrl, (registry) => registry.remove('billing'));
        // An unknown secret makes the directory load again.
        await call(target, 'POST /api/auth/introspect', {
          headers: basic({ ...service, secret: 'lks_unknown' }),
        });
      }
      t.equal((await held.send()).status, deleted ? 401 : 200, line);
      if (deleted) service = await aRegisteredService(target.databaseUrl, 'billing', RIGHTS);
    }
    t.equal((await liveTokens(target, victim)).includes(victim.callerId), true);
  });
}

async function listening(t: Test, env: Environment) {
  const clock = aShiftedClock();
  const target = await buildTestApp(t, {
    env: { ...ENDINGS_ENVIRONMENT, ...PASSKEYS, ...env },
    override: (options) => ({ ...options, clock }),
  });
  await target.app.listen({ host: '127.0.0.1', port: 0 });
  return { target, clock };
}

function holdBody(target: TestApp, line: string, token: string, body: object) {
  return holdRaw(target, line, `Bearer ${token}`, JSON.stringify(body), 'application/json');
}

const FORM = 'application/x-www-form-urlencoded';

/** Sends the head of a request; resolves once the service waits for the body. */
async function holdRaw({ app }: TestApp, line: string, authorization: string, body: string, type = FORM) {
  const { port } = app.server.address() as { port: number };
  const arrived = once(app.server, 'request') as Promise<[IncomingMessage]>;
  const socket = connect(port, '127.0.0.1');
  let received = '';
  socket.on('data', (chunk) => (received += chunk.toString()));
  const head = [
    `${line} HTTP/1.1`,
    'Host: localhost',
    'Connection: close',
    `Authorization: ${authorization}`,
    `Content-Type: ${type}`,
    `Content-Length: ${body.length}`,
  ];
  socket.write(`${head.join('\r\n')}\r\n\r\n`);
  const [request] = await arrived;
  await until(() => request.listenerCount('data') > 0 || received !== '');
  return {
    async send() {
      socket.write(body);
      await once(socket, 'close');
      const [answer] = answersIn(received);
      if (!answer) throw new Error('no answer');
      return answer;
    },
  };
}
