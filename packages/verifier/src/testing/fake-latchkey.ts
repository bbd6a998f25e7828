import { exportJWK, generateKeyPair, SignJWT, type CryptoKey, type JWK } from 'jose';
import { isId } from '../verified-token.ts';
import { isConfirmation } from './confirmation.ts';
import { openFeedBody, type FeedBody } from './feed-body.ts';

/**
 * What a verifier sees of Latchkey: metadata, keys, introspection, the token endpoint, uses, and the feed
 * with its ids, epochs and snapshots. It knows no users and no tokens: its hooks decide about them.
 */
export interface FakeLatchkey {
  answer(request: Request): Promise<Response>;
  /** Adds a key that signs from then on. */
  addKey(algorithm?: string): Promise<{ kid: string; privateKey: CryptoKey; jwk: JWK }>;
  /** The keys in the JWKS. */
  published: JWK[];
  sign: (claims: object, header?: object, key?: CryptoKey | Uint8Array) => Promise<string>;
  /** Puts an event on the stream. Resolves when every connected reader has applied it. */
  publish(event: string, data: object): Promise<void>;
  /** Writes raw text to every connected reader. */
  write(text: string): void;
  /** The clients' versions, which a reader gets when it connects; null for a Latchkey that sends none. */
  clients: Readonly<Record<string, number>> | null;
  /** Sends them to every connected reader. */
  publishClients(versions: Readonly<Record<string, number>>): Promise<void>;
  /** Resolves when every connected reader knows that it is up to date. */
  beat(): Promise<void>;
  /** False stops the heartbeats. Published events still arrive. */
  beats: boolean;
  /** Loses the stream and its events. Connected readers get a snapshot at once. */
  loseStream(): void;
  /** The number of entries in a part of a snapshot, and whether the connection ends before the last part. */
  snapshots: { size: number; isCut: boolean };
  /** Cuts the connections to the feed. */
  cutFeed(): void;
  /** Ends those connections to the feed that were opened with this header. */
  endFeedsOf(authorization: string): void;
  readers(): number;
  /** What each reader has last confirmed, by its id, until its goodbye. */
  confirmed: ReadonlyMap<string, Readonly<Record<string, unknown>>>;
  close(): void;
}

/** A registered service that has authenticated. */
export interface FakeClient {
  id: string;
  /** The audience about whose tokens it may ask. */
  audience: string;
  /** Whether it has the right `limited`; null for a Latchkey that does not say it. */
  mayLimited: boolean | null;
}

export interface Hooks {
  issuer: string;
  /** The client with these credentials. */
  admit(authorization: string | null): FakeClient | null;
  /** The client that this assertion authenticates. */
  admitAssertion(assertion: string): FakeClient | null;
  /** The answer of introspection. It may be slow. */
  introspect(token: string, client: FakeClient): object | Promise<object>;
  /** The answer of the token endpoint, to a client that has authenticated. */
  issue(form: Readonly<Record<string, string>>, client: FakeClient): Response | Promise<Response>;
  /** The ids of tokens that a verifier has answered for from memory. */
  used(ids: readonly number[]): void;
}

export const PATHS = {
  metadata: '/.well-known/oauth-authorization-server',
  keys: '/.well-known/jwks.json',
  introspect: '/api/auth/introspect',
  token: '/api/auth/token',
  feed: '/api/auth/revocations',
  uses: '/api/auth/uses',
} as const;

/** One reader, by its id. */
const READER = /^\/api\/auth\/revocations\/readers\/([^/]+)$/;

/** Seconds for which a reader remembers a revocation: the lifetime of access tokens, and the tolerance. */
const REMEMBER = 905;
/** Milliseconds; Latchkey's own interval is twenty times as long. */
const BEAT = 50;
/** The most ids in a report of uses. */
const MOST_USES = 500;

/** The status of each refusal. */
const REFUSED = {
  validation_failed: 400,
  invalid_subject_token: 400,
  invalid_target: 400,
  unsupported_grant_type: 400,
  invalid_client: 401,
  invalid_token: 401,
  right_missing: 403,
  not_found: 404,
  unavailable: 503,
};
export type Refused = keyof typeof REFUSED;

/** A problem as Latchkey writes it (RFC 9457), with the `error` of RFC 6749 beside the code. */
export function problem(code: Refused): Response {
  const status = REFUSED[code];
  const error = code === 'invalid_subject_token' ? 'invalid_request' : code;
  const body = { type: `urn:latchkey:error:${code}`, title: code, status, code, error };
  const headers = {
    'content-type': 'application/problem+json',
    ...(status === 401 && { 'www-authenticate': 'Basic realm="latchkey"' }),
    ...(status === 503 && { 'retry-after': '1' }),
  };
  return new Response(JSON.stringify(body), { status, headers });
}

/** RFC 6749, section 5.1. */
export function issued(token: string, expiresIn: number, more: object = {}): Response {
  return Response.json({ access_token: token, token_type: 'Bearer', expires_in: expiresIn, ...more });
}

export function makeFakeLatchkey({ issuer, ...hooks }: Hooks): FakeLatchkey {
  const base = issuer.replace(/\/+$/, '');
  const folder = new URL(base).pathname.replace(/\/+$/, '');
  /** The open feeds, each with the `Authorization` that opened it. */
  const readers = new Map<FeedBody, string>();
  const confirmed = new Map<string, Record<string, unknown>>();
  const log: { event: string; data: object }[] = [];
  const snapshot = { tokens: [] as number[], users: [] as object[], statuses: [] as object[] };
  let epoch = 1;
  let signer: Awaited<ReturnType<FakeLatchkey['addKey']>> | undefined;

  const position = (seq = log.length) => `id: ${epoch}.${seq}\n`;
  const frame = (event: string, data: object, id = '') =>
    `event: ${event}\n${id}data: ${JSON.stringify(data)}\n\n`;

  function tellSnapshot(to: FeedBody): void {
    const { size, isCut } = fake.snapshots;
    const { tokens, users, statuses } = snapshot;
    for (let i = 0; i === 0 || i < tokens.length; i += size) {
      const isLast = i + size >= tokens.length;
      if (isLast && isCut) {
        to.end();
        return;
      }
      const part = {
        tokens: tokens.slice(i, i + size),
        users: isLast ? users : [],
        statuses: isLast ? statuses : [],
        last: isLast,
        remember: REMEMBER,
      };
      to.write(frame('snapshot', part, isLast ? position() : ''));
    }
  }

  function follow({ headers }: Request): Response {
    const body = openFeedBody(() => readers.delete(body));
    body.write('retry: 1000\n\n');
    if (fake.clients) body.write(frame('clients', { versions: fake.clients }));
    const [ofEpoch, seq = 0] = (headers.get('last-event-id') ?? '').split('.').map(Number);
    if (ofEpoch !== epoch) tellSnapshot(body);
    else
      log.slice(seq).forEach(({ event, data }, i) => {
        body.write(frame(event, data, position(seq + i + 1)));
      });
    readers.set(body, headers.get('authorization') ?? '');
    return new Response(body.stream, {
      headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store, no-transform' },
    });
  }

  async function tell(text: string): Promise<void> {
    fake.write(text);
    await Promise.all([...readers.keys()].map((reader) => reader.heard()));
  }

  async function introspect(request: Request, client: FakeClient): Promise<Response> {
    const token = new URLSearchParams(await request.text()).get('token') ?? '';
    const headers = {
      'x-latchkey-audience': encodeURI(client.audience),
      ...(client.mayLimited !== null && { 'x-latchkey-limited': String(client.mayLimited) }),
    };
    return Response.json(await hooks.introspect(token, client), { headers });
  }

  async function issue(request: Request): Promise<Response> {
    const form = Object.fromEntries(new URLSearchParams(await request.text()));
    const { client_assertion: assertion } = form;
    const client =
      assertion === undefined
        ? hooks.admit(request.headers.get('authorization'))
        : hooks.admitAssertion(assertion);
    return client ? hooks.issue(form, client) : problem('invalid_client');
  }

  async function noteUses(request: Request): Promise<Response> {
    const body: unknown = await request.json().catch(() => null);
    const { tokens, ...others } = Object(body) as Record<string, unknown>;
    const isList = Array.isArray(tokens) && tokens.length > 0 && tokens.length <= MOST_USES;
    if (!isList || !tokens.every(isId) || Object.keys(others).length > 0) return problem('validation_failed');
    hooks.used(tokens);
    return Response.json({ msg: 'received' });
  }

  async function ofReader(request: Request, id: string): Promise<Response> {
    if (!/^[\w-]{16,64}$/.test(id)) return problem('validation_failed');
    if (request.method === 'DELETE') {
      confirmed.delete(id);
      return Response.json({ msg: 'forgotten' });
    }
    const body: unknown = await request.json().catch(() => null);
    if (!isConfirmation(body)) return problem('validation_failed');
    confirmed.set(id, body);
    return Response.json({ msg: 'noted', after: 1 });
  }

  const fake: FakeLatchkey = {
    async answer(request) {
      const { pathname } = new URL(request.url);
      const path = pathname.startsWith(`${folder}/`) ? pathname.slice(folder.length) : pathname;
      const line = `${request.method} ${path}`;
      if (line === `GET ${PATHS.metadata}`)
        return Response.json({
          issuer,
          jwks_uri: base + PATHS.keys,
          introspection_endpoint: base + PATHS.introspect,
          token_endpoint: base + PATHS.token,
        });
      if (line === `GET ${PATHS.keys}`) return Response.json({ keys: fake.published });
      if (line === `POST ${PATHS.token}`) return issue(request);
      const client = hooks.admit(request.headers.get('authorization'));
      if (!client) return problem('invalid_client');
      if (line === `GET ${PATHS.feed}`) return follow(request);
      if (line === `POST ${PATHS.introspect}`) return introspect(request, client);
      if (line === `POST ${PATHS.uses}`) return noteUses(request);
      const [, reader] = READER.exec(path) ?? [];
      if (reader !== undefined && ['PUT', 'DELETE'].includes(request.method))
        return ofReader(request, reader);
      return problem('not_found');
    },
    published: [],
    async addKey(algorithm = 'ES256') {
      const { publicKey, privateKey } = await generateKeyPair(algorithm, { extractable: true });
      const kid = crypto.randomUUID().slice(0, 8);
      const jwk = { ...(await exportJWK(publicKey)), use: 'sig', alg: algorithm, kid };
      fake.published.push(jwk);
      return (signer = { kid, privateKey, jwk });
    },
    async sign(claims, header = {}, key) {
      if (!signer) throw new Error('no key');
      const typed = { alg: signer.jwk.alg ?? '', kid: signer.kid, typ: 'at+jwt', ...header };
      // Undefined members are left out.
      const payload = JSON.parse(JSON.stringify(claims)) as Record<string, unknown>;
      return new SignJWT(payload).setProtectedHeader(typed).sign(key ?? signer.privateKey);
    },
    publish(event, data) {
      log.push({ event, data });
      const { token, user, before, version } = data as Record<string, number>;
      const status = /^user_(disabled|enabled|deleted)$/.exec(event)?.[1];
      if (token !== undefined) snapshot.tokens.push(token);
      else if (before !== undefined) snapshot.users.push({ user, before });
      else if (status !== undefined) snapshot.statuses.push({ user, status, version });
      return tell(frame(event, data, position()));
    },
    write(text) {
      for (const reader of readers.keys()) reader.write(text);
    },
    clients: {},
    publishClients(versions) {
      fake.clients = versions;
      return tell(frame('clients', { versions }));
    },
    beat: () => tell(frame('heartbeat', {}, position())),
    beats: true,
    loseStream() {
      epoch++;
      log.length = 0;
      for (const reader of readers.keys()) tellSnapshot(reader);
    },
    snapshots: { size: 5000, isCut: false },
    cutFeed() {
      for (const reader of readers.keys()) reader.breakOff();
    },
    endFeedsOf(authorization) {
      for (const [reader, opened] of readers) if (opened === authorization) reader.end();
    },
    readers: () => readers.size,
    confirmed,
    close() {
      clearInterval(beating);
      fake.cutFeed();
    },
  };

  const beating = setInterval(() => {
    // A reader that has not yet read the last heartbeat needs no other one.
    if (fake.beats)
      for (const reader of readers.keys())
        if (reader.isIdle()) reader.write(frame('heartbeat', {}, position()));
  }, BEAT);
  // In jsdom a timer is a number, which has no `unref`.
  (beating as { unref?: () => void }).unref?.();
  return fake;
}
