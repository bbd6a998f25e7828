import { randomBytes, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey, type JWK } from 'jose';
import type { Test } from 'tap';
import { freePort } from '../../../test/support/free-port.ts';

/**
 * The public side of Latchkey that a verifier sees (packages/verifier/README.md): keys, metadata, introspection, the token endpoint,
 * and the feed with its ids, epochs and snapshots. The test controls every part.
 */
export interface FakeLatchkey {
  url: string;
  client: { id: string; secret: string };
  /** Every request, as `GET /path`. */
  requests: string[];
  /** Every token that introspection was asked about. */
  introspected: string[];
  /** The body of every report of uses. */
  reported: unknown[];
  /** The header `Authorization` of every request for the feed and for introspection, and of those for a token that have one. */
  authorizations: (string | undefined)[];
  /** What every request for a token held. */
  tokenRequests: Record<string, string>[];
  /** Whether the token endpoint takes an assertion. */
  takesAssertion: (assertion: string) => boolean;
  /** The code with which the token endpoint refuses a form, or a status with which another server answers in HTML. */
  refuseToken: (form: Record<string, string>) => keyof typeof REFUSED | number | null;
  /** Seconds for which the tokens of its endpoint are good. A feed that was opened with one ends with it. */
  tokenTtl: number;
  /** The tokens of its endpoint that are good. */
  bearers: Set<string>;
  /** The Last-Event-ID of every connection to the feed, or null. */
  resumed: (string | null)[];
  /** The client’s port of every request for the feed. */
  feedPorts: (number | undefined)[];
  /** Adds a key that signs from then on. */
  addKey(algorithm?: string): Promise<{ kid: string; privateKey: CryptoKey; jwk: JWK }>;
  /** The keys in the JWKS. */
  published: JWK[];
  sign(claims?: object, header?: object, key?: CryptoKey | Uint8Array): Promise<string>;
  /** Puts an event on the stream. */
  publish(event: string, data: object): void;
  /** Writes raw text to every connected reader. */
  write(text: string): void;
  /** The versions of its clients, which a reader gets when it connects; null for a Latchkey that does not send them. */
  clients: Record<string, number> | null;
  /** Sends them to every connected reader. */
  publishClients(versions: Record<string, number>): void;
  /** Loses the stream and its events. Connected readers get a snapshot at once. */
  loseStream(): void;
  /** The number of parts of a snapshot, and whether the connection ends before the last one. */
  snapshots: { size: number; isCut: boolean };
  /** Cuts the connections to the feed. */
  cutFeed(): void;
  readers(): number;
  /** False stops heartbeats. Published events still arrive. */
  beats: boolean;
  /** The status for these paths, instead of 200. */
  refusals: Map<string, number>;
  /** The answer of introspection. It may be slow. */
  introspect: (token: string) => Promise<object> | object;
  /** The audience that introspection says the client may ask about. */
  audience: string;
  /** Whether introspection says that the client may ask about limited tokens; null for a Latchkey that does not say it. */
  mayLimited: boolean | null;
  stop(): Promise<void>;
  start(): Promise<void>;
}

const AUDIENCE = 'latchkey';
const REMEMBER = 905;
/** Milliseconds; Latchkey's own interval is twenty times as long. */
const BEAT = 50;
const FEED = '/api/auth/revocations';
const INTROSPECT = '/api/auth/introspect';
const TOKEN = '/api/auth/token';
const USES = '/api/auth/uses';
const REFUSED = {
  invalid_subject_token: 400,
  invalid_target: 400,
  invalid_client: 401,
  invalid_token: 401,
  right_missing: 403,
  unavailable: 503,
};

export async function fakeLatchkey(t: Pick<Test, 'teardown'>): Promise<FakeLatchkey> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const client = { id: 'orders', secret: `s+${randomBytes(8).toString('base64')}` };
  const authorization = `Basic ${Buffer.from([client.id, client.secret].map(encodeURIComponent).join(':')).toString('base64')}`;
  /** With the header that opened each. */
  const readers = new Map<ServerResponse, string | undefined>();
  const log: { event: string; data: object }[] = [];
  const snapshot = { tokens: [] as number[], users: [] as object[], statuses: [] as object[] };
  let epoch = 1;
  let signer: Awaited<ReturnType<FakeLatchkey['addKey']>> | undefined;
  let server: Server | undefined;

  const position = () => `id: ${epoch}-${log.length}\n`;
  const frame = (event: string, data: object, id = '') =>
    `${id}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;

  function tellSnapshot(to: ServerResponse): void {
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

  function follow(request: IncomingMessage, response: ServerResponse): void {
    const from = request.headers['last-event-id'] ?? null;
    fake.resumed.push(from as string | null);
    response.writeHead(200, {
      'content-type': 'text/event-stream',
      'cache-control': 'no-store, no-transform',
    });
    response.write('retry: 1000\n\n');
    if (fake.clients) response.write(frame('clients', { versions: fake.clients }));
    const [ofEpoch, ofEvent] = String(from).split('-').map(Number);
    if (ofEpoch !== epoch) tellSnapshot(response);
    else
      log.slice(ofEvent).forEach(({ event, data }, i) => {
        response.write(frame(event, data, `id: ${epoch}-${(ofEvent ?? 0) + i + 1}\n`));
      });
    readers.set(response, request.headers.authorization);
    response.on('close', () => readers.delete(response));
  }

  /** @param isAdmitted whether the header authenticates the client */
  async function giveToken(request: IncomingMessage, response: ServerResponse, isAdmitted: boolean) {
    const form = Object.fromEntries(new URLSearchParams(await bodyOf(request)));
    fake.tokenRequests.push(form);
    const assertion = form.client_assertion;
    const isClient = assertion === undefined ? isAdmitted : fake.takesAssertion(assertion);
    const refusal = isClient ? fake.refuseToken(form) : 'invalid_client';
    if (typeof refusal === 'number') {
      response.writeHead(refusal, { 'content-type': 'text/html' }).end('<html>Not Latchkey</html>');
      return;
    }
    response.setHeader('content-type', 'application/json');
    if (refusal !== null) {
      const problem = { type: `urn:latchkey:error:${refusal}`, code: refusal };
      response.writeHead(REFUSED[refusal]).end(JSON.stringify(problem));
      return;
    }
    const token = `service-${fake.tokenRequests.length}`;
    if (form.audience === url) {
      fake.bearers.add(token);
      setTimeout(() => {
        fake.bearers.delete(token);
        for (const [reader, opened] of readers) if (opened === `Bearer ${token}`) reader.end();
      }, fake.tokenTtl * 1000).unref();
    }
    const answer = { access_token: token, token_type: 'Bearer', expires_in: fake.tokenTtl };
    response.end(JSON.stringify(answer));
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { url: path = '', method = '' } = request;
    fake.requests.push(`${method} ${path}`);
    if (path === FEED) fake.feedPorts.push(request.socket.remotePort);
    const refusal = fake.refusals.get(path);
    const { authorization: presented } = request.headers;
    if (path === FEED || path === INTROSPECT || presented !== undefined) fake.authorizations.push(presented);
    const isAdmitted =
      presented === authorization || fake.bearers.has(presented?.replace('Bearer ', '') ?? '');
    const json = (body: object) =>
      response.setHeader('content-type', 'application/json').end(JSON.stringify(body));
    if (refusal !== undefined) response.writeHead(refusal).end();
    else if (path === '/.well-known/oauth-authorization-server')
      json({
        issuer: url,
        jwks_uri: `${url}/.well-known/jwks.json`,
        introspection_endpoint: url + INTROSPECT,
        token_endpoint: url + TOKEN,
      });
    else if (path === '/.well-known/jwks.json') json({ keys: fake.published });
    else if (path === TOKEN && method === 'POST') await giveToken(request, response, isAdmitted);
    else if (!isAdmitted) response.writeHead(401).end();
    else if (path === FEED) follow(request, response);
    else if (path === INTROSPECT && method === 'POST') {
      const token = new URLSearchParams(await bodyOf(request)).get('token') ?? '';
      fake.introspected.push(token);
      response.setHeader('x-latchkey-audience', fake.audience);
      if (fake.mayLimited !== null) response.setHeader('x-latchkey-limited', String(fake.mayLimited));
      json(await fake.introspect(token));
    } else if (path === USES && method === 'POST') {
      fake.reported.push(JSON.parse(await bodyOf(request)));
      json({ msg: 'received' });
    } else response.writeHead(404).end();
  }

  const fake: FakeLatchkey = {
    url,
    client,
    requests: [],
    introspected: [],
    reported: [],
    authorizations: [],
    tokenRequests: [],
    takesAssertion: () => true,
    refuseToken: () => null,
    tokenTtl: 300,
    bearers: new Set(),
    resumed: [],
    clients: {},
    feedPorts: [],
    published: [],
    snapshots: { size: 5000, isCut: false },
    beats: true,
    refusals: new Map(),
    introspect: () => ({ active: false }),
    audience: AUDIENCE,
    mayLimited: true,
    async addKey(algorithm = 'ES256') {
      const { publicKey, privateKey } = await generateKeyPair(algorithm, { extractable: true });
      const kid = randomBytes(8).toString('hex');
      const jwk = { ...(await exportJWK(publicKey)), use: 'sig', alg: algorithm, kid };
      fake.published.push(jwk);
      signer = { kid, privateKey, jwk };
      return signer;
    },
    async sign(claims = {}, header = {}, key) {
      if (!signer) throw new Error('no key');
      const iat = Math.floor(Date.now() / 1000);
      const base = {
        iss: url,
        aud: AUDIENCE,
        sub: '7',
        sid: 11,
        iat,
        exp: iat + 900,
        gen: iat * 1e6,
        jti: `11.${iat * 1e6}`,
      };
      const typed = { alg: signer.jwk.alg ?? '', kid: signer.kid, typ: 'at+jwt', ...header };
      const payload = JSON.parse(JSON.stringify({ ...base, ...claims })) as Record<string, unknown>;
      return new SignJWT(payload).setProtectedHeader(typed).sign(key ?? signer.privateKey);
    },
    publish(event, data) {
      log.push({ event, data });
      const { token, user, before, version } = data as Record<string, number>;
      const status = /^user_(disabled|enabled|deleted)$/.exec(event)?.[1];
      if (token !== undefined) snapshot.tokens.push(token);
      else if (before !== undefined) snapshot.users.push({ user, before });
      else if (status !== undefined) snapshot.statuses.push({ user, status, version });
      fake.write(frame(event, data, position()));
    },
    write(text) {
      for (const reader of readers.keys()) reader.write(text);
    },
    publishClients(versions) {
      fake.clients = versions;
      fake.write(frame('clients', { versions }));
    },
    loseStream() {
      epoch++;
      log.length = 0;
      for (const reader of readers.keys()) tellSnapshot(reader);
    },
    cutFeed() {
      for (const reader of readers.keys()) reader.destroy();
    },
    readers: () => readers.size,
    async stop() {
      const stopping = server;
      server = undefined;
      if (!stopping) return;
      stopping.closeAllConnections();
      await new Promise((resolve) => stopping.close(resolve));
    },
    async start() {
      const starting = createServer((request, response) => void answer(request, response));
      server = starting;
      await new Promise<void>((resolve) => starting.listen(port, '127.0.0.1', resolve));
    },
  };

  const beating = setInterval(() => {
    if (fake.beats) fake.write(frame('heartbeat', {}, position()));
  }, BEAT);
  await fake.addKey();
  await fake.start();
  t.teardown(async () => {
    clearInterval(beating);
    await fake.stop();
  });
  return fake;
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let body = '';
  for await (const chunk of request) body += String(chunk);
  return body;
}

/** The claims of a service's token, for `sign`. */
export function ofService(id: string, version: number, claims: object = {}): object {
  const none = { sid: undefined, gen: undefined };
  return {
    ...none,
    sub: id,
    client_id: id,
    client_version: version,
    jti: randomUUID(),
    roles: [],
    ...claims,
  };
}

/** A long-lived token's claims and header, for `sign`. */
export function longLived(sid: number, claims: object = {}): [claims: object, header: object] {
  return [{ sid, exp: undefined, gen: undefined, jti: String(sid), ...claims }, { typ: 'llt+jwt' }];
}

/** The introspection answer for a valid token, and for a text that is none. */
export function activeAnswer(token: string): object {
  if (!token.startsWith('eyJ')) return { active: false };
  const [header, payload] = token
    .split('.', 2)
    .map((part) => JSON.parse(Buffer.from(part, 'base64url').toString()) as Record<string, unknown>);
  return {
    active: true,
    token_type: 'Bearer',
    token_use:
      header?.typ === 'llt+jwt' ? 'llt' : payload && 'client_version' in payload ? 'service' : 'access',
    ...payload,
  };
}
