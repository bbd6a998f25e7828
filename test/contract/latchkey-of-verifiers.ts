import { test, type Test } from 'tap';
import { createTokens } from '../../packages/verifier/src/create-tokens.ts';
import type { Verifier } from '../../packages/verifier/src/create-verifier.ts';
import type { VerifierOptions } from '../../packages/verifier/src/options.ts';
import type { TestToken, TokenTerms } from '../../packages/verifier/src/testing/main.ts';
import type { TokenType, UsersType, UserToken } from '../../packages/verifier/src/verified-token.ts';
import { VerifierError } from '../../packages/verifier/src/verifier-error.ts';
import { claimsOf, headerOf } from '../support/client.ts';

/** A Latchkey with the audiences `latchkey`, its own, and `orders`. Each has a client with every right. */
export interface LatchkeyUnderTest {
  issuer: string;
  /** Reaches it, unless it is away. */
  fetch: typeof globalThis.fetch;
  client: (audience: string) => { id: string; secret: string };
  /** A verifier on the clock that `advance` moves, of the audience `latchkey` unless another is named. */
  verifier<Accepted extends TokenType = UsersType>(
    options?: Partial<VerifierOptions<Accepted>>,
  ): Verifier<Accepted>;
  /** A new user. @returns its id */
  aUser(roles?: readonly string[]): Promise<number>;
  token(token: TestToken & TokenTerms): Promise<string>;
  /** These three resolve when every verifier knows. */
  revoke(token: string): Promise<void>;
  revokeUser(userId: number): Promise<void>;
  changeUser(userId: number, change: { roles: readonly string[]; emailVerified?: true }): Promise<void>;
  outage(on: boolean): Promise<void>;
  advance(seconds: number): Promise<void>;
}

const READ = { scope: 'orders:read' };
const MFA = { acr: 'mfa' } as const;
const INVALID = 'invalid_token';

/** What a service sees of a Latchkey: a fake one that tests rely on may differ from a real one in none of it. */
export function latchkeyOfVerifiersContract(
  implementation: string,
  open: (t: Test) => Promise<LatchkeyUnderTest>,
): void {
  const contract = (sentence: string, run: (t: Test, latchkey: LatchkeyUnderTest) => Promise<void>) => {
    test(`${implementation}: ${sentence}`, async (t) => {
      await run(t, await open(t));
    });
  };

  /** One token of each kind that a verifier of `latchkey` takes, of a user with a role. */
  async function tokensOf(latchkey: LatchkeyUnderTest, userId: number) {
    return {
      access: await latchkey.token({ userId }),
      llt: await latchkey.token({ userId, tokenType: 'llt' }),
      limited: await latchkey.token({ userId, scopes: ['orders:read', 'billing'] }),
    };
  }

  contract('writes the same claims into each kind of token', async (t, latchkey) => {
    const userId = await latchkey.aUser(['admin']);
    const { access, llt, limited } = await tokensOf(latchkey, userId);
    const exchanged = await latchkey.token({ userId, audience: 'orders' });
    const forOrders = await latchkey.token({ userId, scopes: ['orders:read'], audience: 'orders' });
    const service = await tokensFor(t, latchkey).serviceToken('orders');
    const proven = await latchkey.token({ userId, acr: 'mfa' });
    const client = latchkey.client('latchkey').id;

    const now = Date.now() / 1000;
    const isNow = (value: unknown) => Math.abs(Number(value) - now) < 60;
    const sub = String(userId);
    const user = { iss: latchkey.issuer, sub };
    const ofAccess = { ...user, aud: 'latchkey', roles: ['admin'], client_id: 'latchkey' };
    const ofOrders = { ...ofAccess, aud: 'orders' };
    const ofLimited = { ...user, scope: 'orders:read billing', aud: 'latchkey#limited' };
    const kinds: [
      token: string,
      typ: string,
      jti: RegExp,
      life: number | null,
      claims: object,
      rest: string[],
    ][] = [
      [access, 'at+jwt', /^\d+\.\d+$/, 900, ofAccess, ['auth_time', 'gen', 'sid']],
      [
        proven,
        'at+jwt',
        /^\d+\.\d+$/,
        900,
        { ...ofAccess, acr: 'mfa', amr: ['pwd', 'otp', 'mfa'] },
        ['auth_time', 'gen', 'sid'],
      ],
      [llt, 'llt+jwt', /^\d+$/, null, { ...user, aud: 'latchkey' }, ['sid']],
      [limited, 'limited+jwt', /^\d+$/, 90 * 86_400, ofLimited, ['sid']],
      [
        forOrders,
        'limited+jwt',
        /^\d+$/,
        90 * 86_400,
        { ...ofLimited, scope: 'orders:read', aud: 'orders#limited' },
        ['sid'],
      ],
      [exchanged, 'at+jwt', /^[\w-]{22}$/, 300, ofOrders, ['auth_time', 'gen', 'sid']],
      [
        service,
        'at+jwt',
        /^[\w-]{22}$/,
        300,
        { iss: latchkey.issuer, aud: 'orders', sub: client, client_id: client, roles: [] },
        ['client_version'],
      ],
    ];
    for (const [token, typ, jti, life, expected, rest] of kinds) {
      t.match(headerOf(token), { alg: 'ES256', typ, kid: /./ });
      t.equal(Object.keys(headerOf(token)).length, 3);
      const { jti: id, iat, exp, ...claims } = claimsOf(token);
      t.match(id, jti, typ);
      t.ok(isNow(iat), 'issued now');
      t.equal(exp, life === null ? undefined : Number(iat) + life, typ);
      for (const name of rest) t.ok(Number.isSafeInteger(claims[name]), `${typ} has ${name}`);
      const others = Object.entries(claims).filter(([name]) => !rest.includes(name));
      t.strictSame(Object.fromEntries(others), expected, typ);
      if ('auth_time' in claims) t.ok(isNow(claims.auth_time));
      if (/^[\d.]+$/.test(String(id))) t.equal(String(id).split('.')[0], String(claims.sid));
    }
  });

  contract('introspects each kind of token alike', async (t, latchkey) => {
    const userId = await latchkey.aUser(['admin']);
    const own = await tokensOf(latchkey, userId);
    const exchanged = await latchkey.token({ userId, audience: 'orders' });
    const service = await tokensFor(t, latchkey).serviceToken('orders');
    const said = async (token: string, audience: string) => {
      const response = await askAbout(latchkey, token, audience);
      t.equal(response.status, 200);
      t.equal(response.headers.get('x-latchkey-audience'), audience);
      t.equal(response.headers.get('x-latchkey-limited'), 'true');
      return (await response.json()) as Record<string, unknown>;
    };
    for (const [kind, token, audience] of [
      ['access', own.access, 'latchkey'],
      ['llt', own.llt, 'latchkey'],
      ['limited', own.limited, 'latchkey'],
      ['access', exchanged, 'orders'],
      ['service', service, 'orders'],
    ] as const) {
      const { username, ...answer } = await said(token, audience);
      t.equal(typeof username, kind === 'service' ? 'undefined' : 'string');
      const roles = kind === 'service' ? [] : ['admin'];
      const added = { active: true, token_type: 'Bearer', token_use: kind, roles };
      t.strictSame(answer, { ...claimsOf(token), ...added }, `${kind} for ${audience}`);
      const other = audience === 'orders' ? 'latchkey' : 'orders';
      t.strictSame(await said(token, other), { active: false }, `${kind} asked about for ${other}`);
    }
    t.strictSame(await said('eyJ.eyJ.x', 'latchkey'), { active: false });
    const stranger = { ...latchkey.client('latchkey'), secret: 'wrong' };
    t.equal((await askAbout(latchkey, own.access, stranger)).status, 401);
  });

  contract('a verifier reads each kind of token, and each end reaches it', async (t, latchkey) => {
    const verifier = latchkey.verifier();
    await verifier.ready();
    const userId = await latchkey.aUser(['admin']);
    const first = await tokensOf(latchkey, userId);
    const shown = { userId, roles: ['admin'], emailVerified: false };
    t.match(await verifier.verify(first.access), { ...shown, tokenType: 'access' });
    t.match(await verifier.verify(first.llt), { ...shown, tokenType: 'llt' });
    const scopes = ['orders:read', 'billing'];
    t.match(await verifier.verify(first.limited, READ), { ...shown, tokenType: 'limited', scopes });

    for (const [kind, token] of Object.entries(first)) {
      await latchkey.revoke(token);
      t.match(await outcomeOf(verifier, token, READ), [INVALID, 'revoked'], kind);
    }
    const second = await tokensOf(latchkey, userId);
    for (const token of Object.values(second)) t.equal(await outcomeOf(verifier, token, READ), 'good');
    await latchkey.revokeUser(userId);
    for (const [kind, token] of Object.entries(second))
      t.match(
        await outcomeOf(verifier, token, READ),
        [INVALID, 'revoked'],
        `all tokens of the user: ${kind}`,
      );
    const later = await latchkey.token({ userId });
    t.equal(await outcomeOf(verifier, later), 'good', 'a later login');
    const others = await latchkey.token({ userId: await latchkey.aUser() });
    t.equal(await outcomeOf(verifier, others), 'good', 'another user');

    const newcomer = latchkey.verifier();
    await newcomer.ready();
    for (const token of [...Object.values(first), ...Object.values(second)])
      t.match(await outcomeOf(newcomer, token, READ), [INVALID, 'revoked'], 'from the snapshot');
    t.equal(await outcomeOf(newcomer, later), 'good');
  });

  contract('a change of the user reaches the tokens that hold no roles', async (t, latchkey) => {
    const verifier = latchkey.verifier();
    await verifier.ready();
    const userId = await latchkey.aUser(['admin']);
    const { access, llt, limited } = await tokensOf(latchkey, userId);
    const shown = async (token: string) => {
      const { roles, emailVerified } = (await verifier.verify(token, READ)) as UserToken;
      return { roles, emailVerified };
    };
    const before = { roles: ['admin'], emailVerified: false };
    const after = { roles: ['editor'], emailVerified: true };
    for (const token of [access, llt, limited]) t.strictSame(await shown(token), before);
    await latchkey.changeUser(userId, { roles: ['editor'], emailVerified: true });
    t.strictSame(await shown(llt), after);
    t.strictSame(await shown(limited), after);
    t.strictSame(await shown(access), before, 'an access token keeps its own');
    const later = await latchkey.token({ userId });
    t.match(claimsOf(later), { email_verified: true, roles: ['editor'] });
    t.strictSame(await shown(later), after);
    t.match(await (await askAbout(latchkey, access, 'latchkey')).json(), {
      email_verified: true,
      roles: ['editor'],
    });
  });

  contract('a limited token passes with its scopes only, and others as without', async (t, latchkey) => {
    const verifier = latchkey.verifier();
    await verifier.ready();
    const userId = await latchkey.aUser();
    const { access, llt, limited } = await tokensOf(latchkey, userId);
    for (const token of [access, llt, limited]) t.equal(await outcomeOf(verifier, token, READ), 'good');
    t.equal(await outcomeOf(verifier, limited, { scope: ['billing', 'orders:read'] }), 'good');
    for (const scope of ['orders:write', ['orders:read', 'orders:write']])
      t.match(await outcomeOf(verifier, limited, { scope }), ['insufficient_scope', 'scope']);
    t.match(await outcomeOf(verifier, limited), ['insufficient_scope', 'scope'], 'where no scope is named');
    t.match(await outcomeOf(verifier, limited), ['insufficient_scope', 'scope'], 'where no scope is named');
    const forOrders = await latchkey.token({ userId, scopes: ['orders:read'], audience: 'orders' });
    t.match(await outcomeOf(verifier, forOrders, READ), [INVALID, 'audience']);
    const ofOrders = latchkey.verifier({ audience: 'orders' });
    await ofOrders.ready();
    t.equal(await outcomeOf(ofOrders, forOrders, READ), 'good');
    t.match(await outcomeOf(ofOrders, limited, READ), [INVALID, 'audience']);
  });

  contract('a demand for more proof is met by the login that gave it', async (t, latchkey) => {
    const verifier = latchkey.verifier();
    await verifier.ready();
    const { access, llt, limited } = await tokensOf(latchkey, await latchkey.aUser());
    const proven = await latchkey.token({ userId: await latchkey.aUser(), acr: 'mfa' });
    const exchanged = await tokensFor(t, latchkey).exchange(proven, 'orders');
    const ofOrders = latchkey.verifier({ audience: 'orders' });
    await ofOrders.ready();
    const unproven = 'insufficient_user_authentication';
    t.equal(await outcomeOf(verifier, proven, { ...MFA, maxAge: 300 }), 'good');
    t.equal(await outcomeOf(ofOrders, exchanged, { ...MFA, maxAge: 300 }), 'good');
    t.match(await outcomeOf(verifier, access, MFA), [unproven, 'acr']);
    t.equal(await outcomeOf(verifier, access, { maxAge: 300 }), 'good');
    for (const token of [llt, limited])
      for (const [demand, reason] of [
        [MFA, 'acr'],
        [{ maxAge: 300 }, 'max_age'],
      ] as const)
        t.match(await outcomeOf(verifier, token, { ...READ, ...demand }), [unproven, reason]);
    await latchkey.advance(310);
    t.match(await outcomeOf(verifier, proven, { ...MFA, maxAge: 300 }), [unproven, 'max_age']);
    t.equal(await outcomeOf(verifier, proven, MFA), 'good');
    await latchkey.advance(600);
    t.match(await outcomeOf(verifier, proven, MFA), [INVALID, 'expired']);
    t.equal(await outcomeOf(verifier, llt), 'good', 'a long-lived token does not expire');
  });

  contract('exchanges access tokens, and gives a service its own', async (t, latchkey) => {
    const tokens = tokensFor(t, latchkey);
    const verifier = latchkey.verifier({ audience: 'orders', accept: ['access', 'service'] });
    await verifier.ready();
    const userId = await latchkey.aUser(['admin']);
    const { access, llt, limited } = await tokensOf(latchkey, userId);
    const { id } = latchkey.client('latchkey');

    const exchanged = await tokens.exchange(access, 'orders');
    const seen = await verifier.verify(exchanged);
    t.match(seen, { tokenType: 'access', userId, roles: ['admin'], clientId: id, act: { sub: id } });
    const { jti, iat, exp, ...claims } = claimsOf(exchanged);
    const { sub, sid, gen, auth_time } = claimsOf(access);
    const kept = { iss: latchkey.issuer, sub, sid, gen, auth_time, roles: ['admin'] };
    t.strictSame(claims, { ...kept, aud: 'orders', client_id: id, act: { sub: id } });
    t.match(jti, /^[\w-]{22}$/);
    t.equal(Number(exp) - Number(iat), 300);
    t.match(await outcomeOf(verifier, access), [INVALID, 'audience']);

    const service = await tokens.serviceToken('orders');
    t.match(await verifier.verify(service), { tokenType: 'service', clientId: id, roles: [] });
    const usersOnly = latchkey.verifier({ audience: 'orders' });
    await usersOnly.ready();
    t.match(await outcomeOf(usersOnly, service), [INVALID, 'type']);

    const mistake = { code: 'unavailable', reason: 'configuration', option: 'audience' };
    await t.rejects(tokens.exchange(access, 'latchkey'), mistake);
    const refused = { code: INVALID, reason: 'inactive' };
    for (const token of [exchanged, llt, limited, service, `${access}x`])
      await t.rejects(tokens.exchange(token, 'orders'), refused);
    const mistyped = tokensFor(t, latchkey, { secret: 'mistyped' });
    await t.rejects(mistyped.serviceToken('orders'), {
      code: 'unavailable',
      reason: 'configuration',
      option: 'client',
    });

    await latchkey.revoke(access);
    t.match(await outcomeOf(verifier, exchanged), [INVALID, 'revoked'], 'it ends with its session');
    await t.rejects(tokensFor(t, latchkey).exchange(access, 'orders'), refused);
    await latchkey.revoke(service);
    t.match(await outcomeOf(verifier, service), [INVALID, 'revoked']);
    t.equal(await outcomeOf(verifier, await tokensFor(t, latchkey).serviceToken('orders')), 'good');
  });

  contract('an outage changes nothing until the verifier knows too little', async (t, latchkey) => {
    const userId = await latchkey.aUser();
    const [good, ended] = [await latchkey.token({ userId }), await latchkey.token({ userId })];
    const [seen, unseen] = [
      await latchkey.token({ userId, tokenType: 'llt' }),
      await latchkey.token({ userId, tokenType: 'llt' }),
    ];
    const kinds = (['introspect', 'refuse', 'accept'] as const).map((whenStale) => ({
      whenStale,
      verifier: latchkey.verifier({ whenStale, onError: () => undefined }),
    }));
    await Promise.all(kinds.map(({ verifier }) => verifier.ready()));
    for (const { verifier } of kinds) t.equal(await outcomeOf(verifier, seen), 'good');
    await latchkey.revoke(ended);

    await latchkey.outage(true);
    for (const { verifier } of kinds) {
      t.equal(await outcomeOf(verifier, good), 'good');
      t.equal(await outcomeOf(verifier, seen), 'good');
      t.match(await outcomeOf(verifier, unseen), ['unavailable', 'unreachable']);
      t.match(await outcomeOf(verifier, ended), [INVALID, 'revoked']);
    }
    const late = latchkey.verifier({ onError: () => undefined });
    t.match(await outcomeOf(late, good), ['unavailable', 'unreachable'], 'started meanwhile');

    await latchkey.advance(121);
    const stale = {
      introspect: ['unavailable', 'unreachable'],
      refuse: ['unavailable', 'stale'],
      accept: 'good',
    };
    for (const { whenStale, verifier } of kinds) {
      t.strictSame(await outcomeOf(verifier, good), stale[whenStale], whenStale);
      t.strictSame(await outcomeOf(verifier, seen), stale[whenStale], whenStale);
      t.match(await outcomeOf(verifier, ended), [INVALID, 'revoked'], 'a known end stays');
    }
    await latchkey.outage(false);
    await late.ready();
    for (const verifier of [late, ...kinds.map((each) => each.verifier)]) {
      t.equal(await outcomeOf(verifier, good), 'good');
      t.equal(await outcomeOf(verifier, unseen), 'good');
      t.match(await outcomeOf(verifier, ended), [INVALID, 'revoked']);
    }
  });

  contract('takes reports of uses from its services', async (t, latchkey) => {
    const report = (body: unknown, mistyped = {}) =>
      latchkey.fetch(`${latchkey.issuer}/api/auth/uses`, {
        method: 'POST',
        headers: {
          ...basic({ ...latchkey.client('latchkey'), ...mistyped }),
          'content-type': 'application/json',
        },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      });
    const many = (length: number) => Array.from({ length }, (_, i) => i + 1);
    for (const tokens of [[7], [7, 7], many(500)]) {
      const response = await report({ tokens });
      t.equal(response.status, 200);
      t.strictSame(Object.keys((await response.json()) as object), ['msg']);
    }
    const wrong: unknown[] = [
      {},
      { tokens: [] },
      { tokens: many(501) },
      { tokens: 7 },
      { tokens: [7], more: 1 },
    ];
    for (const id of ['7', 0, -1, 1.5, null]) wrong.push({ tokens: [7, id] });
    for (const body of wrong) {
      const response = await report(body);
      t.equal(response.status, 400, JSON.stringify(body).slice(0, 50));
      t.match(await response.json(), {
        type: 'urn:latchkey:error:validation_failed',
        code: 'validation_failed',
      });
    }
    t.equal((await report('{')).status, 400);
    t.equal((await report({ tokens: [7] }, { secret: 'mistyped' })).status, 401);
  });

  contract('takes confirmations and goodbyes from the readers of its feed', async (t, latchkey) => {
    const send = (method: string, reader: string, body?: unknown, mistyped = {}) =>
      latchkey.fetch(`${latchkey.issuer}/api/auth/revocations/readers/${reader}`, {
        method,
        headers: {
          ...basic({ ...latchkey.client('latchkey'), ...mistyped }),
          ...(body !== undefined && { 'content-type': 'application/json' }),
        },
        ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      });
    const reader = 'reader_0123456-9';
    const whole = {
      position: '1.0',
      instance: 'orders-7d4f9.local:1',
      software: '@latchkey/verifier',
      version: '1.0.0',
      audience: 'latchkey',
      max_staleness: 604_800,
      when_stale: 'refuse',
      keys: Array.from({ length: 16 }, (_, i) => `key-${i}`),
    };
    for (const body of [whole, { position: '1.0' }, { ...whole, position: '1.0', max_staleness: 0 }]) {
      const response = await send('PUT', reader, body);
      t.equal(response.status, 200);
      const { after, ...others } = (await response.json()) as Record<string, unknown>;
      t.strictSame([after, Object.keys(others)], [1, ['msg']]);
    }
    const wrong: unknown[] = [{}, '{', [], { ...whole, more: 1 }];
    for (const position of ['1', '1.0.0', '1.-1', '.1', '1.01', 10, null]) wrong.push({ position });
    for (const [name, values] of Object.entries({
      instance: ['', 'orders 1', 'orders\n1', 'ada@example.com', 'x'.repeat(129), 7],
      software: ['', 'a b', 'x'.repeat(65)],
      version: ['', 'a b', 'x'.repeat(65)],
      audience: ['', 'x'.repeat(257)],
      max_staleness: [-1, 604_801, 1.5, '120', undefined],
      when_stale: ['perhaps', undefined],
      keys: ['key-1', [''], [7], [...whole.keys, 'key-17']],
    }))
      for (const value of values) wrong.push({ ...whole, [name]: value });
    for (const body of wrong) {
      const response = await send('PUT', reader, body);
      t.equal(response.status, 400, JSON.stringify(body));
      if (typeof body !== 'string') t.match(await response.json(), { code: 'validation_failed' });
    }
    for (const other of ['reader_012345-9', 'x'.repeat(65), 'reader_0123456.9'])
      t.equal((await send('PUT', other, whole)).status, 400, other);
    for (const method of ['PUT', 'DELETE'])
      t.equal(
        (await send(method, reader, method === 'PUT' ? whole : undefined, { secret: 'x' })).status,
        401,
      );
    for (const what of ['a reader', 'one that is gone']) {
      const response = await send('DELETE', reader);
      t.equal(response.status, 200, what);
      t.strictSame(Object.keys((await response.json()) as object), ['msg']);
    }
  });

  contract('what is mistyped is refused by name', async (t, latchkey) => {
    const client = { ...latchkey.client('latchkey'), secret: 'mistyped' };
    const onError = () => undefined;
    const mistake = { code: 'unavailable', reason: 'configuration' };
    await t.rejects(latchkey.verifier({ client, onError }).ready(), { ...mistake, option: 'client' });
    const other = latchkey.client('orders');
    await t.rejects(latchkey.verifier({ client: other, onError }).ready(), {
      ...mistake,
      option: 'audience',
      found: 'orders',
    });
  });

  function tokensFor(t: Test, { issuer, fetch, client }: LatchkeyUnderTest, mistyped = {}) {
    const tokens = createTokens({ issuer, fetch, client: { ...client('latchkey'), ...mistyped } });
    t.teardown(() => tokens.close());
    return tokens;
  }
}

/** @returns `good`, or code and reason of the refusal */
async function outcomeOf(
  { verify }: Pick<Verifier<TokenType>, 'verify'>,
  token: string,
  options: object = {},
): Promise<string | [code: string, reason: string]> {
  try {
    await verify(token, options as { scope: string });
    return 'good';
  } catch (error) {
    if (!(error instanceof VerifierError)) throw error;
    return [error.code, error.reason];
  }
}

function askAbout(
  { issuer, fetch, client }: LatchkeyUnderTest,
  token: string,
  as: string | { id: string; secret: string },
): Promise<Response> {
  return fetch(`${issuer}/api/auth/introspect`, {
    method: 'POST',
    headers: basic(typeof as === 'string' ? client(as) : as),
    body: new URLSearchParams({ token }),
  });
}

function basic({ id, secret }: { id: string; secret: string }): { authorization: string } {
  return { authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}` };
}
