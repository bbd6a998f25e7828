import type { VerifierClock } from './clock.ts';
import { basicCredentials, type Credentials } from './credentials.ts';
import type { Settings } from './options.ts';
import { makeServiceCredentials } from './service-credentials.ts';
import {
  reasonOf,
  unavailable,
  VerifierError,
  type OutageReason,
  type VerifierErrorOption,
} from './verifier-error.ts';

/** Requests to Latchkey. Each fails with `VerifierError` `unavailable`. */
export interface Latchkey {
  /** The JWK Set (RFC 7517), unchecked. */
  keys(): Promise<unknown>;
  /**
   * RFC 7662: whether the token is good right now, and its claims.
   * @param isLimited whether it is a limited token, about which only a client with that right may ask.
   */
  introspect(token: string, isLimited?: boolean): Promise<Record<string, unknown>>;
  /** Opens the feed after the given event. The caller closes it with the signal. */
  feed(lastEventId: string | null, signal: AbortSignal): Promise<Response>;
  /** Renews no token from then on. */
  close(): void;
}

/** By status: what is wrong with the client, and stays wrong until an operator or developer corrects it. */
type Mistakes = Readonly<Record<number, string>>;

type Call = Pick<RequestInit, 'method' | 'body'> & {
  headers?: Record<string, string>;
  /** For requests with the client's credentials. */
  mistakes?: Mistakes;
  /** Throws if the answer's headers show a mistake. */
  check?: (answered: Headers) => void;
};

interface Endpoints {
  keys: string;
  introspection: string;
}

/** Milliseconds. Not for the feed, which never ends and detects silence itself. */
const TIMEOUT = 2000;

/** What OpenSSL makes of an answer in plain HTTP. */
const NO_TLS = /^ERR_SSL_(WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG)$/;

const METADATA = '/.well-known/oauth-authorization-server';
const FEED = '/api/auth/revocations';
const TOKEN = '/api/auth/token';
const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer';

interface Parts {
  settings: Pick<Settings, 'issuer' | 'audience' | 'url' | 'client' | 'fetch'>;
  clock: Pick<VerifierClock, 'monotonic'>;
  /** Called after each renewal of this client's own token, with null if it worked. */
  onRenew: (failure: VerifierError | null) => void;
}

/** Discovers the endpoints once (RFC 8414). */
export function makeLatchkey({ settings, clock, onRenew }: Parts): Latchkey {
  const { issuer, audience, url, client, fetch } = settings;
  const credentials: Credentials =
    'assertion' in client
      ? makeServiceCredentials({ assertion: client.assertion, request: requestToken, clock, onRenew })
      : basicCredentials(client);
  const metadata = url + METADATA;
  const { origin, pathname: folder } = new URL(url);
  /** Without the user and password that a URL may hold. */
  const noLatchkey = `no Latchkey at ${(origin + folder).replace(/\/+$/, '')}`;
  let endpoints: Endpoints | null = null;
  let discovering: Promise<Endpoints> | null = null;

  /**
   * Follows no redirect, which could send the secret or a token to another server. Retries once, because the server may
   * have closed a keep-alive connection; none of these requests changes anything.
   */
  async function send(to: string, init: RequestInit, mistakes?: Mistakes): Promise<Response> {
    const { pathname, origin } = new URL(to);
    const attempt = () => fetch(to, { redirect: 'manual', ...init });
    const response = await attempt()
      .catch((error: unknown) => {
        if (init.signal?.aborted) throw error;
        return attempt();
      })
      .catch((error: unknown) => {
        throw unavailable('unreachable', `${pathname} did not answer: ${whyNot(error, origin)}`, {
          option: 'url',
        });
      });
    if (response.status === 200) return response;
    await response.body?.cancel().catch(() => undefined);
    // The endpoint may have moved: discover again.
    if (response.status === 404) endpoints = null;
    throw refusal(to, response.status, mistakes);
  }

  function refusal(to: string, status: number, mistakes: Mistakes = {}): RefusedError {
    const answered = `${new URL(to).pathname} answered ${status}`;
    const mistake = mistakes[status];
    if (mistake !== undefined)
      return new RefusedError(status, 'configuration', `${answered}: ${mistake}`, 'client');
    const isTemporary = status >= 500 || status === 429 || status === 408;
    if (status === 404 || (to === metadata && !isTemporary))
      return new RefusedError(status, 'unexpected_answer', `${noLatchkey}: ${answered}`, 'url');
    return new RefusedError(status, 'unreachable', answered);
  }

  async function json(to: string, call: Call = {}): Promise<Record<string, unknown>> {
    const { headers, mistakes, check, ...init } = call;
    const accept = { accept: 'application/json' };
    const signal = AbortSignal.timeout(TIMEOUT);
    const response = await send(to, { ...init, signal, headers: { ...accept, ...headers } }, mistakes);
    const body = await response.json().catch((error: unknown) => {
      const reason: OutageReason = error instanceof SyntaxError ? 'unexpected_answer' : 'unreachable';
      const isOther = to === metadata && reason === 'unexpected_answer';
      const what = `${new URL(to).pathname} returned a malformed answer: ${reasonOf(error)}`;
      throw unavailable(reason, isOther ? `${noLatchkey}: ${what}` : what, { option: 'url' });
    });
    check?.(response.headers);
    return Object(body) as Record<string, unknown>;
  }

  /** Moves an endpoint from the issuer's address to `url`, if they differ. */
  function endpoint(name: string, value: unknown): string {
    const base = `${issuer.replace(/\/+$/, '')}/`;
    if (typeof value === 'string' && value.startsWith(base)) return `${url}/${value.slice(base.length)}`;
    throw unavailable('configuration', `${METADATA} names no ${name} of this issuer`, { option: 'issuer' });
  }

  /** Concurrent calls share one discovery. */
  function whereTo(): Endpoints | Promise<Endpoints> {
    return (
      endpoints ??
      (discovering ??= discover().finally(() => {
        discovering = null;
      }))
    );
  }

  async function discover(): Promise<Endpoints> {
    const found = await json(metadata);
    // RFC 8414, section 3.3: another issuer's metadata may not be used.
    if (found.issuer !== issuer) {
      throw unavailable('configuration', `${METADATA} is of another issuer`, {
        option: 'issuer',
        expected: issuer,
        found: found.issuer,
        words: ['the setting is', "Latchkey's is"],
      });
    }
    return (endpoints = {
      keys: endpoint('jwks_uri', found.jwks_uri),
      introspection: endpoint('introspection_endpoint', found.introspection_endpoint),
    });
  }

  /** To a client of another audience every token is inactive. That is no fault of the tokens. */
  function checkAudience(answered: Headers): void {
    const found = answered.get('x-latchkey-audience');
    if (found === encodeURI(audience)) return;
    throw unavailable('configuration', 'the client may ask about tokens for another audience only', {
      option: 'audience',
      expected: audience,
      found,
      words: ['the setting is', "the client's is"],
    });
  }

  /** To a client without the right every limited token is inactive. */
  function checkRight(answered: Headers): void {
    if (answered.get('x-latchkey-limited') === 'true') return;
    throw unavailable('configuration', 'the client has no right `limited`', { option: 'client' });
  }

  /** RFC 6749, section 4.4, with an assertion (RFC 7523, section 2.2). */
  function requestToken(assertion: string): Promise<Record<string, unknown>> {
    const body = new URLSearchParams({
      grant_type: 'client_credentials',
      audience: issuer,
      client_assertion_type: ASSERTION_TYPE,
      client_assertion: assertion,
    });
    const mistakes = { 401: "client.assertion was refused, and Latchkey's log says why" };
    return json(url + TOKEN, { method: 'POST', body, mistakes });
  }

  /** Asks once more if Latchkey refuses a token that can be replaced. */
  async function asClient<Answer>(
    right: string,
    call: (headers: { authorization: string }, mistakes: Mistakes) => Promise<Answer>,
  ): Promise<Answer> {
    const mistakes = { 401: credentials.mistake, 403: `the client has no right \`${right}\`` };
    const authorization = await credentials.authorization();
    return call({ authorization }, mistakes).catch(async (error: unknown) => {
      const isRefused = error instanceof RefusedError && error.status === 401;
      if (!isRefused || !credentials.refused(authorization)) throw error;
      return call({ authorization: await credentials.authorization() }, mistakes);
    });
  }

  return {
    async keys() {
      return json((await whereTo()).keys);
    },
    async introspect(token, isLimited = false) {
      const { introspection } = await whereTo();
      const body = new URLSearchParams({ token });
      return asClient('introspect', (headers, mistakes) =>
        json(introspection, {
          method: 'POST',
          body,
          headers,
          mistakes,
          check(answered) {
            checkAudience(answered);
            if (isLimited) checkRight(answered);
          },
        }),
      );
    },
    async feed(lastEventId, signal) {
      const headers = {
        accept: 'text/event-stream',
        // A new connection: a keep-alive connection would lead back to the replica that has just refused us.
        connection: 'close',
        ...(lastEventId !== null && { 'last-event-id': lastEventId }),
      };
      const response = await asClient('revocations', (authorization, mistakes) =>
        send(url + FEED, { headers: { ...authorization, ...headers }, signal }, mistakes),
      );
      const type = response.headers.get('content-type') ?? '';
      if (type.startsWith('text/event-stream')) return response;
      await response.body?.cancel().catch(() => undefined);
      throw unavailable('unexpected_answer', `${FEED} did not return what it should`, {
        option: 'url',
        expected: 'text/event-stream',
        found: type,
      });
    },
    close() {
      credentials.close();
    },
  };
}

/** @param origin of the request: without the user and password that a URL may hold */
function whyNot(error: unknown, origin: string): string {
  const reason = reasonOf(error);
  if (reason === 'TimeoutError') return `nothing came from ${origin} within ${TIMEOUT / 1000} s`;
  return NO_TLS.test(reason) ? `${reason}: ${origin} speaks no TLS, is it http?` : reason;
}

/** The server at `url` answered with a status other than 200. */
export class RefusedError extends VerifierError {
  readonly status: number;

  constructor(status: number, reason: OutageReason, message: string, option?: VerifierErrorOption) {
    super('unavailable', reason, message, { option });
    this.status = status;
  }
}
