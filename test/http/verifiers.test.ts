import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';
import { SYSTEM_CLOCK } from '../../packages/verifier/src/clock.ts';
import { makeVerifier, type Verifier } from '../../packages/verifier/src/create-verifier.ts';
import type { VerifierOptions } from '../../packages/verifier/src/options.ts';
import type { TokenType, UsersType } from '../../packages/verifier/src/verified-token.ts';
import { latchkeyOfVerifiersContract, type LatchkeyUnderTest } from '../contract/latchkey-of-verifiers.ts';
import { aManager } from '../support/accounts.ts';
import { buildTestApp } from '../support/app.ts';
import { exchanged } from '../support/audiences.ts';
import {
  anAccount,
  call,
  claimsOf,
  createLimited,
  createLongLived,
  logIn,
  signUp,
} from '../support/client.ts';
import { aFactor, logInWithFactor, type TestFactor } from '../support/factors.ts';
import { faultProxy } from '../support/fault-proxy.ts';
import { testDatabase } from '../support/postgres.ts';
import { aRegisteredService, withRegistry } from '../support/registered-service.ts';
import { until } from '../support/until.ts';

const ISSUER = 'https://id.example.com';
const RIGHTS = ['introspect', 'revocations', 'limited', 'exchange', 'call:orders'] as const;

/** The service itself, behind a proxy that can take it away. Its own clock stays; that of the verifiers moves. */
async function aLatchkey(t: Test): Promise<LatchkeyUnderTest> {
  const { url: databaseUrl } = await testDatabase(t);
  const clients = {
    latchkey: await aRegisteredService(databaseUrl, 'shop', RIGHTS),
    orders: await aRegisteredService(databaseUrl, 'orders', RIGHTS, 'orders'),
  };
  const target = await buildTestApp(t, { databaseUrl, env: { ISSUER } });
  const manage = await aManager(databaseUrl, target);
  target.composition.start();
  await target.app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = target.app.server.address() as AddressInfo;
  const proxy = await faultProxy(t, `http://127.0.0.1:${port}`);
  const through = new URL(proxy.url).origin;

  let ahead = 0;
  let isAway = false;
  const clock = {
    now: () => SYSTEM_CLOCK.now() + ahead,
    monotonic: () => SYSTEM_CLOCK.monotonic() + ahead,
  };
  const verifiers: { verifier: Pick<Verifier, 'staleness'>; heard: number }[] = [];
  /** Of those that take service tokens. */
  let ofServices: Pick<Verifier<TokenType>, 'verify'> | undefined;
  const usernames = new Map<number, string>();
  const factors = new Map<number, TestFactor>();
  /** The session's access token, by an exchanged one. */
  const subjects = new Map<string, string>();
  const witness = (await signUp(target)).user.id;

  const client = (audience: string) => {
    const { serviceId: id, secret } = clients[audience as keyof typeof clients];
    return { id, secret };
  };

  /** The events of the feed keep their order, so those before this one have arrived with it. */
  async function allHeard(): Promise<void> {
    const before = verifiers.map(({ heard }) => heard);
    const { statusCode, body } = await manage(`PATCH /api/users/${witness}`, {
      name: `Witness ${Math.random()}`,
    });
    if (statusCode !== 200) throw new Error(body);
    if (!isAway) await until(() => verifiers.every(({ heard }, i) => heard > (before[i] ?? 0)));
  }

  /** Resolves once each verifier has heard of the feed in this time. */
  async function allFollow(seconds: () => number): Promise<void> {
    await until(() => verifiers.every(({ verifier }) => verifier.staleness() < seconds()));
  }

  async function access(userId: number, withFactor: boolean): Promise<string> {
    const username = usernames.get(userId) ?? '';
    if (!withFactor) return (await logIn(target, username)).access_token;
    const pair = factors.has(userId) ? null : await logIn(target, username);
    const factor = factors.get(userId) ?? (pair && (await aFactor(target, pair)));
    if (!factor) throw new Error('no factor');
    factors.set(userId, factor);
    return (await logInWithFactor(target, username, factor)).access_token;
  }

  return {
    issuer: ISSUER,
    fetch: (to, init) => fetch((to as string).replace(ISSUER, through), init),
    client,
    verifier<Accepted extends TokenType = UsersType>(options: Partial<VerifierOptions<Accepted>> = {}) {
      const { audience = 'latchkey' } = options;
      const entry = { heard: 0 };
      const onUser = ({ userId }: { userId: number }) => {
        if (userId === witness) entry.heard++;
      };
      const given = { issuer: ISSUER, url: through, audience, client: client(audience), onUser };
      const verifier = makeVerifier<Accepted>({ ...given, ...options }, clock);
      t.teardown(() => verifier.close());
      verifiers.push(Object.assign(entry, { verifier }));
      if ((verifier.accept as readonly TokenType[]).includes('service')) ofServices = verifier;
      return verifier;
    },
    async aUser(roles = []) {
      const account = anAccount();
      const { user } = await signUp(target, account);
      usernames.set(user.id, account.username);
      await manage(`PATCH /api/users/${user.id}`, { roles });
      return user.id;
    },
    async token({ userId, tokenType, scopes, acr, audience }) {
      const token = await access(userId, acr === 'mfa');
      if (tokenType === 'llt') return (await createLongLived(target, token)).longlived_token;
      if (scopes) return (await createLimited(target, token, scopes, audience ? { audience } : {})).token;
      if (audience === undefined) return token;
      const forAudience = await exchanged(target, token, { audience });
      subjects.set(forAudience, token);
      return forAudience;
    },
    async revoke(token) {
      if (claimsOf(token).client_version !== undefined) {
        await withRegistry(databaseUrl, (registry) => registry.endTokens('shop'));
        await until(async () => ofServices !== undefined && !(await isGood(ofServices, token)));
        return;
      }
      const { statusCode, body } = await call(target, 'DELETE /api/auth', {
        token: subjects.get(token) ?? token,
      });
      if (statusCode !== 200) throw new Error(body);
      await allHeard();
    },
    async revokeUser(userId) {
      await manage(`DELETE /api/users/${userId}/tokens`);
      await allHeard();
    },
    async changeUser(userId, { roles, emailVerified }) {
      const email = `${usernames.get(userId) ?? ''}@example.com`;
      const proof = emailVerified ? { email, email_verified: true } : {};
      const { statusCode, body } = await manage(`PATCH /api/users/${userId}`, { roles, ...proof });
      if (statusCode !== 200) throw new Error(body);
      await allHeard();
    },
    async outage(on) {
      isAway = on;
      proxy.set(on ? 'refuse' : 'pass');
      const since = performance.now();
      if (!on) await allFollow(() => (performance.now() - since) / 1000);
    },
    async advance(seconds) {
      ahead += seconds * 1000;
      if (!isAway) await allFollow(() => 3);
    },
  };
}

function isGood(verifier: Pick<Verifier<TokenType>, 'verify'>, token: string): Promise<boolean> {
  return verifier.verify(token).then(
    () => true,
    () => false,
  );
}

latchkeyOfVerifiersContract('a real Latchkey', aLatchkey);
