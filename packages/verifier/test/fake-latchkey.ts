import { randomBytes, randomUUID } from 'node:crypto';
import type { Test } from 'tap';
import { basicCredentials } from '../src/credentials.ts';
import {
  issued,
  makeFakeLatchkey,
  PATHS,
  problem,
  type FakeLatchkey as Fake,
  type Refused,
} from '../src/testing/fake-latchkey.ts';
import { serve, type Served } from '../src/testing/serve.ts';
import { freePort } from '../../../test/support/free-port.ts';

/**
 * The fake Latchkey of `@latchkey/verifier/testing` over HTTP. The test controls every part, and sees every
 * request.
 */
export interface FakeLatchkey extends Omit<Fake, 'answer' | 'close' | 'publish' | 'publishClients'> {
  url: string;
  /** Puts an event on the stream. */
  publish(event: string, data: object): void;
  /** Sends the versions of the clients to every connected reader. */
  publishClients(versions: Record<string, number>): void;
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
  refuseToken: (form: Record<string, string>) => Refused | number | null;
  /** Seconds for which the tokens of its endpoint are good. A feed that was opened with one ends with it. */
  tokenTtl: number;
  /** The tokens of its endpoint that are good. */
  bearers: Set<string>;
  /** The Last-Event-ID of every connection to the feed, or null. */
  resumed: (string | null)[];
  /** The client’s port of every request for the feed. */
  feedPorts: (number | undefined)[];
  /** The claims are those of session 11 of user 7, except those given. */
  sign(claims?: object, header?: object, key?: Parameters<Fake['sign']>[2]): Promise<string>;
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

export async function fakeLatchkey(t: Pick<Test, 'teardown'>): Promise<FakeLatchkey> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const client = { id: 'orders', secret: `s+${randomBytes(8).toString('base64')}` };
  const basic = basicCredentials(client).authorization();
  const identity = () => ({ id: client.id, audience: fake.audience, mayLimited: fake.mayLimited });
  let served: Served | undefined;

  const core = makeFakeLatchkey({
    issuer: url,
    admit(presented) {
      const isAdmitted = presented === basic || fake.bearers.has(presented?.replace('Bearer ', '') ?? '');
      return isAdmitted ? identity() : null;
    },
    admitAssertion: (assertion) => (fake.takesAssertion(assertion) ? identity() : null),
    introspect(token) {
      fake.introspected.push(token);
      return fake.introspect(token);
    },
    issue,
    used: (tokens) => fake.reported.push({ tokens }),
  });

  function issue(form: Record<string, string>): Response {
    const refusal = fake.refuseToken(form);
    if (typeof refusal === 'number')
      return new Response('<html>Not Latchkey</html>', {
        status: refusal,
        headers: { 'content-type': 'text/html' },
      });
    if (refusal !== null) return problem(refusal);
    const token = `service-${fake.tokenRequests.length}`;
    if (form.audience === url) {
      fake.bearers.add(token);
      setTimeout(() => {
        fake.bearers.delete(token);
        core.endFeedsOf(`Bearer ${token}`);
      }, fake.tokenTtl * 1000).unref();
    }
    return issued(token, fake.tokenTtl);
  }

  async function answer(request: Request): Promise<Response> {
    const { method, headers } = request;
    const { pathname: path } = new URL(request.url);
    fake.requests.push(`${method} ${path}`);
    const presented = headers.get('authorization') ?? undefined;
    const isOfClient = path === PATHS.feed || path === PATHS.introspect;
    if (isOfClient || presented !== undefined) fake.authorizations.push(presented);
    const refusal = fake.refusals.get(path);
    if (refusal !== undefined) return new Response(null, { status: refusal });
    if (method === 'POST' && path === PATHS.token)
      fake.tokenRequests.push(Object.fromEntries(new URLSearchParams(await request.clone().text())));
    const response = await core.answer(request);
    if (response.ok && path === PATHS.feed) fake.resumed.push(headers.get('last-event-id'));
    return response;
  }

  const fake: FakeLatchkey = Object.assign(core, {
    url,
    client,
    requests: [],
    introspected: [],
    authorizations: [],
    tokenRequests: [],
    takesAssertion: () => true,
    refuseToken: () => null,
    tokenTtl: 300,
    bearers: new Set<string>(),
    resumed: [],
    feedPorts: [],
    reported: [],
    sign: signer(url, core.sign),
    refusals: new Map<string, number>(),
    introspect: () => ({ active: false }),
    audience: AUDIENCE,
    mayLimited: true,
    async stop() {
      const stopping = served;
      served = undefined;
      await stopping?.stop();
    },
    async start() {
      served = await serve(answer, port);
      served.server.on('request', ({ url: path, socket }) => {
        if (path === PATHS.feed) fake.feedPorts.push(socket.remotePort);
      });
    },
  });

  await fake.addKey();
  await fake.start();
  t.teardown(async () => {
    core.close();
    await fake.stop();
  });
  return fake;
}

function signer(url: string, sign: Fake['sign']): FakeLatchkey['sign'] {
  return (claims = {}, ...rest) => {
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
    return sign({ ...base, ...claims }, ...rest);
  };
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
