import { SYSTEM_CLOCK, type VerifierClock } from '../clock.ts';
import { makeVerifier, type Verifier } from '../create-verifier.ts';
import { basicCredentials } from '../credentials.ts';
import type { TokensOptions, VerifierOptions } from '../options.ts';
import { isId, LIMITED_AUDIENCE, type TokenType, type UsersType } from '../verified-token.ts';
import { issued, makeFakeLatchkey, problem, type FakeClient } from './fake-latchkey.ts';
import { serve, type Served } from './serve.ts';
import {
  checkTestToken,
  claimsOf,
  kindOf,
  LIFETIMES,
  randomJti,
  TYP_OF,
  type Claims,
  type Owner,
  type TestServiceToken,
  type TestToken,
  type TokenKind,
} from './test-token.ts';

/** How long a token is good, and for which audience. */
export interface TokenTerms {
  /** Default: that of the issuer. A token for another one is as if the user's client had exchanged it. */
  audience?: string | undefined;
  /** Seconds (default: as Latchkey's own tokens of the type). */
  expiresIn?: number | undefined;
}

/** What a service knows of a user, and Latchkey may change. */
export type UserChange = Partial<Owner>;

/** Latchkey for the tests of a service, within the test's process. Its tokens are good only here. */
export interface TestIssuer {
  /** For `createVerifier` and `createTokens`. */
  readonly options: TokensOptions & {
    issuer: string;
    audience: string;
    client: { id: string; secret: string };
    fetch: typeof globalThis.fetch;
  };
  /** A real verifier, on the issuer's clock. An audience of its own is that of another registered service. */
  verifier<Accepted extends TokenType = UsersType>(
    options?: Partial<VerifierOptions<Accepted>>,
  ): Verifier<Accepted>;
  /**
   * A new token. Each access token is of a session of its own.
   * @throws TypeError for what no token can hold
   */
  token(token: (TestToken | TestServiceToken) & TokenTerms): Promise<string>;
  /**
   * Ends a token, with its session or its service's other tokens. Resolves when every connected verifier
   * knows.
   */
  revoke(token: string): Promise<void>;
  /** Ends all tokens of the user. Resolves when every connected verifier knows. */
  revokeUser(userId: number): Promise<void>;
  /** Changes what later tokens and answers say of the user. Resolves when every connected verifier knows. */
  changeUser(userId: number, change: UserChange): Promise<void>;
  /** Begins or ends an outage. At its end, resolves when the verifiers are connected again. */
  outage(on: boolean): Promise<void>;
  /** Moves the clock of the issuer and its verifiers on. */
  advance(seconds: number): Promise<void>;
  /** Listens at a loopback address, for verifiers and agents in other processes. @returns its URL */
  listen(): Promise<string>;
  /** Closes the verifiers too. */
  close(): Promise<void>;
}

interface Issued {
  kind: TokenKind;
  /** The user's id, or that of the client. */
  owner: number | string;
  claims: Claims;
}

/** Seconds by which Latchkey's clocks may differ. */
const TOLERANCE = 5;
/** Milliseconds for verifiers to connect again. They try at least every second. */
const PATIENCE = 5000;
/** The name of an audience, as it can be registered. */
const AUDIENCE = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$/;

const CLIENT_CREDENTIALS = 'client_credentials';
const TOKEN_EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange';

/**
 * It makes keys of its own and takes none, so that it can imitate no real Latchkey.
 * @throws TypeError for another option, for an issuer that is no URL, and for an audience that is no text
 */
export function testIssuer(options: TestIssuerOptions = {}): TestIssuer {
  return makeTestIssuer(options).testIssuer;
}

export interface TestIssuerOptions {
  /** Its ISSUER (default `https://latchkey.test`). */
  issuer?: string | undefined;
  /** Its AUDIENCE (default `latchkey`). */
  audience?: string | undefined;
}

/** Also gives the credentials of other services, for our own tests. */
export function makeTestIssuer(given: TestIssuerOptions): {
  testIssuer: TestIssuer;
  optionsFor: (audience: string) => TestIssuer['options'];
} {
  const { issuer = 'https://latchkey.test', audience: ownAudience = 'latchkey', ...others } = given;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) throw new TypeError(`${unknown} is no option: use issuer and audience`);
  if (!/^https?:/.test(issuer) || !URL.canParse(issuer)) throw new TypeError('issuer must be an http(s) URL');
  if (typeof ownAudience !== 'string' || ownAudience === '') throw new TypeError('audience must be a text');
  let ahead = 0;
  let isAway = false;
  let lastId = 0;
  let served: Promise<Served> | undefined;
  const clock: VerifierClock = {
    now: () => SYSTEM_CLOCK.now() + ahead,
    monotonic: () => SYSTEM_CLOCK.monotonic() + ahead,
  };
  const seconds = () => Math.floor(clock.now() / 1000);

  const tokens = new Map<string, Issued>();
  const endedIds = new Set<number>();
  /** By user: all tokens up to this id have ended. */
  const endedUpTo = new Map<number, number>();
  const owners = new Map<number | string, Owner & { version: number }>();
  /** By audience. */
  const clients = new Map<string, FakeClient & { secret: string; authorization: string }>();
  const verifiers = new Set<Pick<Verifier, 'close' | 'staleness'>>();

  const fake = makeFakeLatchkey({
    issuer,
    admit: (authorization) => (authorization === null ? null : admit(authorization)),
    admitAssertion: (assertion) => (assertion === '' ? null : clientOf(ownAudience)),
    introspect,
    issue,
    used: () => undefined,
  });
  const hasKey = fake.addKey();

  function ownerOf(id: number | string): Owner & { version: number } {
    const known = owners.get(id);
    if (known) return known;
    const owner = { roles: [], emailVerified: false, version: 1 };
    owners.set(id, owner);
    if (typeof id === 'string') fake.clients = { ...fake.clients, [id]: owner.version };
    return owner;
  }

  /** The registered service of an audience, with every right. */
  function clientOf(audience: string) {
    const known = clients.get(audience);
    if (known) return known;
    const [id, secret] = [`lkc_${randomJti()}`, randomJti()];
    const authorization = basicCredentials({ id, secret }).authorization() as string;
    const client = { id, secret, audience, mayLimited: true, authorization };
    clients.set(audience, client);
    ownerOf(id);
    return client;
  }

  function admit(authorization: string): FakeClient | null {
    const all = [...clients.values()];
    const bearer = tokens.get(/^Bearer +(\S+) *$/i.exec(authorization)?.[1] ?? '');
    if (!bearer) return all.find((client) => client.authorization === authorization) ?? null;
    const isOwn = bearer.claims.aud === issuer && isGood(bearer);
    return isOwn ? (all.find(({ id }) => id === bearer.owner) ?? null) : null;
  }

  function isGood({ kind, owner, claims }: Issued): boolean {
    if (claims.exp !== undefined && seconds() >= claims.exp + TOLERANCE) return false;
    if (kind === 'service') return claims.client_version === ownerOf(owner).version;
    const id = claims.sid as number;
    return !endedIds.has(id) && id > (endedUpTo.get(owner as number) ?? 0);
  }

  function introspect(token: string, { audience }: FakeClient): object {
    const found = tokens.get(token);
    if (!found || !isGood(found)) return { active: false };
    const { kind, owner, claims } = found;
    if (claims.aud !== (kind === 'limited' ? audience + LIMITED_AUDIENCE : audience))
      return { active: false };
    const { roles, emailVerified } = ownerOf(owner);
    return {
      ...claims,
      active: true,
      token_type: 'Bearer',
      token_use: kind,
      ...(kind !== 'service' && { username: `user-${owner}` }),
      roles,
      // Latchkey leaves it out unless it is true.
      email_verified: emailVerified || undefined,
    };
  }

  async function sign(kind: TokenKind, owner: number | string, claims: Claims): Promise<string> {
    await hasKey;
    const token = await fake.sign(claims, { typ: TYP_OF[kind] });
    tokens.set(token, { kind, owner, claims });
    return token;
  }

  /** RFC 6749, section 4.4, and RFC 8693. */
  async function issue(form: Readonly<Record<string, string>>, client: FakeClient): Promise<Response> {
    const { grant_type: grant, audience = '' } = form;
    if (grant === CLIENT_CREDENTIALS) {
      if (audience !== issuer && !isOthers(audience)) return problem('invalid_target');
      const token = { tokenType: 'service', clientId: client.id } as const;
      return issued(await make({ ...token, audience }), LIFETIMES.ofAudience);
    }
    if (grant !== TOKEN_EXCHANGE) return problem('unsupported_grant_type');
    const subject = tokens.get(form.subject_token ?? '');
    if (subject?.kind !== 'access' || subject.claims.aud !== ownAudience || !isGood(subject))
      return problem('invalid_subject_token');
    if (!isOthers(audience)) return problem('invalid_target');
    const { owner, claims } = subject;
    const iat = seconds();
    const exp = Math.min(claims.exp ?? 0, iat + LIFETIMES.ofAudience);
    if (exp <= iat) return problem('invalid_subject_token');
    const { roles, emailVerified } = ownerOf(owner);
    const exchanged = {
      ...claims,
      aud: audience,
      jti: randomJti(),
      iat,
      exp,
      client_id: client.id,
      act: { sub: client.id },
      roles,
      email_verified: emailVerified || undefined,
    };
    const type = { issued_token_type: 'urn:ietf:params:oauth:token-type:access_token' };
    return issued(await sign('access', owner, exchanged), exp - iat, type);
  }

  /** Every audience that can be registered counts as registered, except Latchkey's own. */
  function isOthers(audience: string): boolean {
    return audience !== ownAudience && AUDIENCE.test(audience);
  }

  async function make({
    audience = ownAudience,
    expiresIn,
    ...token
  }: (TestToken | TestServiceToken) & TokenTerms): Promise<string> {
    checkTestToken(token);
    const kind = kindOf(token);
    if (expiresIn !== undefined && !isId(expiresIn))
      throw new TypeError(
        'expiresIn must be a whole number of seconds from 1: use advance() to let a token expire',
      );
    if (kind === 'llt' && audience !== ownAudience)
      throw new TypeError(`a long-lived token is for ${ownAudience} only`);
    if (kind === 'service' && audience === ownAudience)
      throw new TypeError(`a service's token is for another audience than ${ownAudience}: name it`);
    const id = token.tokenType === 'service' ? token.clientId : token.userId;
    const isNew = !owners.has(id);
    const { roles, emailVerified } = token as TestToken;
    const change = { ...(roles && { roles }), ...(emailVerified !== undefined && { emailVerified }) };
    if (isNew) Object.assign(ownerOf(id), change);
    else if (isOther(ownerOf(id), change)) await changeOwner(id, change);
    if (isNew && kind === 'service') await fake.publishClients(fake.clients ?? {});
    const owner = ownerOf(id);
    const names = { issuer, ownAudience, audience, now: seconds(), expiresIn };
    const claims = claimsOf(token, owner, { ...names, id: kind === 'service' ? owner.version : ++lastId });
    return sign(kind, id, claims);
  }

  async function changeOwner(id: number | string, change: UserChange): Promise<void> {
    const owner = ownerOf(id);
    Object.assign(owner, change);
    // A service's roles are those in its token, until that expires.
    if (typeof id === 'string') return;
    owner.version++;
    await fake.publish('user_changed', { user: id, version: owner.version });
  }

  const fetch: typeof globalThis.fetch = async (input, init) => {
    const request = new Request(input, init);
    // The error of Node's own `fetch` when nobody listens.
    if (isAway) throw new TypeError('fetch failed', { cause: { code: 'ECONNREFUSED' } });
    await hasKey;
    return fake.answer(request);
  };

  const optionsFor = (audience: string) => {
    const { id, secret } = clientOf(audience);
    return { issuer, audience, client: { id, secret }, fetch };
  };

  function requireUser(userId: number): void {
    if (!isId(userId)) throw new TypeError('userId must be a whole number from 1');
  }

  const testIssuer: TestIssuer = {
    options: optionsFor(ownAudience),
    verifier<Accepted extends TokenType = UsersType>(options: Partial<VerifierOptions<Accepted>> = {}) {
      const { audience = ownAudience } = options;
      const verifier = makeVerifier<Accepted>({ ...optionsFor(audience), ...options }, clock);
      const made: Verifier<Accepted> = {
        ...verifier,
        close() {
          verifiers.delete(made);
          return verifier.close();
        },
      };
      verifiers.add(made);
      return made;
    },
    token: make,
    async revoke(token) {
      const found = tokens.get(token);
      if (!found) throw new TypeError('this issuer has not issued this token');
      const { kind, owner, claims } = found;
      if (kind !== 'service') {
        endedIds.add(claims.sid as number);
        await fake.publish('revoked', { token: claims.sid, user: owner });
        return;
      }
      const version = ++ownerOf(owner).version;
      await fake.publishClients({ ...fake.clients, [owner]: version });
    },
    async revokeUser(userId) {
      requireUser(userId);
      endedUpTo.set(userId, lastId);
      if (lastId > 0) await fake.publish('user_revoked', { user: userId, before: lastId });
    },
    async changeUser(userId, change) {
      requireUser(userId);
      checkTestToken({ userId, ...change });
      await changeOwner(userId, change);
    },
    async outage(on) {
      isAway = on;
      if (on) {
        fake.cutFeed();
        return;
      }
      const since = performance.now();
      const heardAfter = ({ staleness }: Pick<Verifier, 'staleness'>) =>
        staleness() < (performance.now() - since) / 1000;
      while (![...verifiers].every(heardAfter) && performance.now() - since < PATIENCE)
        await new Promise((resolve) => setTimeout(resolve, 5));
    },
    async advance(by) {
      if (!(Number.isFinite(by) && by >= 0)) throw new TypeError('advance takes a number of seconds from 0');
      ahead += by * 1000;
      if (!isAway) await fake.beat();
    },
    async listen() {
      served ??= serve((request) => fetch(request));
      return (await served).url;
    },
    async close() {
      await Promise.all([...verifiers].map((verifier) => verifier.close()));
      fake.close();
      await (await served)?.stop();
    },
  };
  return { testIssuer, optionsFor };
}

function isOther(owner: Owner, change: UserChange): boolean {
  return Object.entries(change).some(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(owner[name as keyof Owner]),
  );
}
