import type { Settings } from './options.ts';
import { VerifierError } from './verifier-error.ts';

/** Requests to Latchkey. Each fails with `VerifierError` `unavailable`. */
export interface Latchkey {
  /** The JWK Set (RFC 7517), unchecked. */
  keys(): Promise<unknown>;
  /** RFC 7662: whether the token is good right now, and its claims. */
  introspect(token: string): Promise<Record<string, unknown>>;
  /** Opens the feed after the given event. The caller closes it with the signal. */
  feed(lastEventId: string | null, signal: AbortSignal): Promise<Response>;
}

type Call = Pick<RequestInit, 'method' | 'body'> & { headers?: Record<string, string> };

interface Endpoints {
  keys: string;
  introspection: string;
}

/** Milliseconds. Not for the feed, which never ends and detects silence itself. */
const TIMEOUT = 2000;

const METADATA = '/.well-known/oauth-authorization-server';
const FEED = '/api/auth/revocations';

/** Discovers the endpoints once (RFC 8414). */
export function makeLatchkey(settings: Pick<Settings, 'issuer' | 'url' | 'client' | 'fetch'>): Latchkey {
  const { issuer, url, client, fetch } = settings;
  const authorization = basic(client);
  let endpoints: Endpoints | null = null;
  let discovering: Promise<Endpoints> | null = null;

  /**
   * Refuses redirects, which could send the secret or a token to another server. Retries once, because the server may
   * have closed a keep-alive connection; all these requests only read.
   */
  async function send(to: string, init: RequestInit): Promise<Response> {
    const { pathname } = new URL(to);
    const attempt = () => fetch(to, { redirect: 'error', ...init });
    const response = await attempt()
      .catch((error: unknown) => {
        if (init.signal?.aborted) throw error;
        return attempt();
      })
      .catch((error: unknown) => {
        throw new VerifierError('unavailable', `${pathname} did not answer: ${reasonOf(error)}`);
      });
    if (response.status === 200) return response;
    await response.body?.cancel().catch(() => undefined);
    // The endpoint may have moved: discover again.
    if (response.status === 404) endpoints = null;
    throw new RefusedError(response.status, pathname);
  }

  async function json(to: string, { headers, ...init }: Call = {}): Promise<Record<string, unknown>> {
    const accept = { accept: 'application/json' };
    const signal = AbortSignal.timeout(TIMEOUT);
    const response = await send(to, { ...init, signal, headers: { ...accept, ...headers } });
    try {
      return Object(await response.json()) as Record<string, unknown>;
    } catch (error) {
      throw new VerifierError(
        'unavailable',
        `${new URL(to).pathname} returned a malformed answer: ${reasonOf(error)}`,
      );
    }
  }

  /** Moves an endpoint from the issuer's address to `url`, if they differ. */
  function endpoint(name: string, value: unknown): string {
    const base = `${issuer.replace(/\/+$/, '')}/`;
    if (typeof value === 'string' && value.startsWith(base)) return `${url}/${value.slice(base.length)}`;
    throw new VerifierError('unavailable', `${METADATA} names no ${name} of this issuer`);
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
    if (found.issuer !== issuer) throw new VerifierError('unavailable', `${METADATA} is of another issuer`);
    return (endpoints = {
      keys: endpoint('jwks_uri', found.jwks_uri),
      introspection: endpoint('introspection_endpoint', found.introspection_endpoint),
    });
  }

  return {
    async keys() {
      return json((await whereTo()).keys);
    },
    async introspect(token) {
      const { introspection } = await whereTo();
      const body = new URLSearchParams({ token });
      return json(introspection, { method: 'POST', body, headers: { authorization } });
    },
    async feed(lastEventId, signal) {
      const headers = {
        authorization,
        accept: 'text/event-stream',
        // A new connection: a keep-alive connection would lead back to the replica that has just refused us.
        connection: 'close',
        ...(lastEventId !== null && { 'last-event-id': lastEventId }),
      };
      const response = await send(url + FEED, { headers, signal });
      const type = response.headers.get('content-type') ?? '';
      if (type.startsWith('text/event-stream')) return response;
      await response.body?.cancel().catch(() => undefined);
      throw new VerifierError(
        'unavailable',
        `${FEED} returned content type ${type || 'none'}, not text/event-stream`,
      );
    },
  };
}

/** Latchkey answered with a status other than 200. */
export class RefusedError extends VerifierError {
  readonly status: number;

  constructor(status: number, path: string) {
    super('unavailable', `${path} answered ${status}`);
    this.status = status;
  }
}

/** RFC 6749, section 2.3.1: id and secret are form-encoded first. */
function basic({ id, secret }: Settings['client']): string {
  const [user, password] = [id, secret].map((text) => new URLSearchParams({ _: text }).toString().slice(2));
  return `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
}

/** The error code, for example of a refused connection. Not the message: it might contain a URL with a password. */
function reasonOf(error: unknown): string {
  const { name, code, cause } = Object(error) as { name?: string; code?: string; cause?: { code?: string } };
  return cause?.code ?? (typeof code === 'string' ? code : undefined) ?? name ?? 'unknown';
}
