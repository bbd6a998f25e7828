import type { Settings } from './options.ts';
import { unavailable, VerifierError, type OutageReason } from './verifier-error.ts';

/** Requests to Latchkey. Each fails with `VerifierError` `unavailable`. */
export interface Latchkey {
  /** The JWK Set (RFC 7517), unchecked. */
  keys(): Promise<unknown>;
  /** RFC 7662: whether the token is good right now, and its claims. */
  introspect(token: string): Promise<Record<string, unknown>>;
  /** Opens the feed after the given event. The caller closes it with the signal. */
  feed(lastEventId: string | null, signal: AbortSignal): Promise<Response>;
}

type Call = Pick<RequestInit, 'method' | 'body'> & {
  headers?: Record<string, string>;
  right?: string;
  /** Throws if the answer's headers show a mistake. */
  check?: (answered: Headers) => void;
};

interface Endpoints {
  keys: string;
  introspection: string;
}

/** Milliseconds. Not for the feed, which never ends and detects silence itself. */
const TIMEOUT = 2000;

const METADATA = '/.well-known/oauth-authorization-server';
const FEED = '/api/auth/revocations';

/** Discovers the endpoints once (RFC 8414). */
export function makeLatchkey(
  settings: Pick<Settings, 'issuer' | 'audience' | 'url' | 'client' | 'fetch'>,
): Latchkey {
  const { issuer, audience, url, client, fetch } = settings;
  const authorization = basic(client);
  let endpoints: Endpoints | null = null;
  let discovering: Promise<Endpoints> | null = null;

  /**
   * Refuses redirects, which could send the secret or a token to another server. Retries once, because the server may
   * have closed a keep-alive connection; all these requests only read.
   * @param right what the client must be allowed to do, for requests with its secret.
   */
  async function send(to: string, init: RequestInit, right?: string): Promise<Response> {
    const { pathname } = new URL(to);
    const attempt = () => fetch(to, { redirect: 'error', ...init });
    const response = await attempt()
      .catch((error: unknown) => {
        if (init.signal?.aborted) throw error;
        return attempt();
      })
      .catch((error: unknown) => {
        throw unavailable('unreachable', `${pathname} did not answer: ${reasonOf(error)}`);
      });
    if (response.status === 200) return response;
    await response.body?.cancel().catch(() => undefined);
    // The endpoint may have moved: discover again.
    if (response.status === 404) endpoints = null;
    throw new RefusedError(response.status, pathname, right);
  }

  async function json(to: string, call: Call = {}): Promise<Record<string, unknown>> {
    const { headers, right, check, ...init } = call;
    const accept = { accept: 'application/json' };
    const signal = AbortSignal.timeout(TIMEOUT);
    const response = await send(to, { ...init, signal, headers: { ...accept, ...headers } }, right);
    const body = await response.json().catch((error: unknown) => {
      const reason: OutageReason = error instanceof SyntaxError ? 'unexpected_answer' : 'unreachable';
      throw unavailable(reason, `${new URL(to).pathname} returned a malformed answer: ${reasonOf(error)}`);
    });
    check?.(response.headers);
    return Object(body) as Record<string, unknown>;
  }

  /** Moves an endpoint from the issuer's address to `url`, if they differ. */
  function endpoint(name: string, value: unknown): string {
    const base = `${issuer.replace(/\/+$/, '')}/`;
    if (typeof value === 'string' && value.startsWith(base)) return `${url}/${value.slice(base.length)}`;
    throw unavailable('configuration', `${METADATA} names no ${name} of this issuer`);
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
    const found = await json(url + METADATA);
    // RFC 8414, section 3.3: another issuer's metadata may not be used.
    if (found.issuer !== issuer) {
      throw unavailable('configuration', `${METADATA} is of another issuer`, {
        ...{ expected: issuer, found: found.issuer },
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
      ...{ expected: audience, found },
    });
  }

  return {
    async keys() {
      return json((await whereTo()).keys);
    },
    async introspect(token) {
      const { introspection } = await whereTo();
      const body = new URLSearchParams({ token });
      const rules = { right: 'introspect', check: checkAudience };
      return json(introspection, { method: 'POST', body, headers: { authorization }, ...rules });
    },
    async feed(lastEventId, signal) {
      const headers = {
        authorization,
        accept: 'text/event-stream',
        // A new connection: a keep-alive connection would lead back to the replica that has just refused us.
        connection: 'close',
        ...(lastEventId !== null && { 'last-event-id': lastEventId }),
      };
      const response = await send(url + FEED, { headers, signal }, 'revocations');
      const type = response.headers.get('content-type') ?? '';
      if (type.startsWith('text/event-stream')) return response;
      await response.body?.cancel().catch(() => undefined);
      throw unavailable('unexpected_answer', `${FEED} did not return what it should`, {
        ...{ expected: 'text/event-stream', found: type },
      });
    },
  };
}

/** Latchkey answered with a status other than 200. */
export class RefusedError extends VerifierError {
  readonly status: number;

  /** @param right what the client must be allowed to do, if its secret was sent. */
  constructor(status: number, path: string, right?: string) {
    const mistake = right === undefined ? undefined : mistakeOf(status, right);
    const reason: OutageReason = mistake === undefined ? 'unreachable' : 'configuration';
    super('unavailable', reason, `${path} answered ${status}${mistake ?? ''}`);
    this.status = status;
  }
}

/** What is wrong with the client, and stays wrong until an operator or developer corrects it. */
function mistakeOf(status: number, right: string): string | undefined {
  if (status === 401) return ': client.id or client.secret is wrong';
  if (status === 403) return `: the client has no right \`${right}\``;
  return undefined;
}

/** RFC 6749, section 2.3.1: id and secret are form-encoded first. */
function basic({ id, secret }: Settings['client']): string {
  const [user, password] = [id, secret].map((text) => new URLSearchParams({ _: text }).toString().slice(2));
  return `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
}

/** The error code, for example of a refused connection. Not the message: it might contain a URL with a password. */
export function reasonOf(error: unknown): string {
  const { name, code, cause } = Object(error) as { name?: string; code?: string; cause?: { code?: string } };
  return cause?.code ?? (typeof code === 'string' ? code : undefined) ?? name ?? 'unknown';
}
