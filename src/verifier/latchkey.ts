import type { Settings } from './options.ts';
import { VerifierError } from './verifier-error.ts';

/** What is asked of Latchkey. Everything here fails with `VerifierError` `unavailable`. */
export interface Latchkey {
  /** The JWK Set (RFC 7517), as it came. */
  keys(): Promise<unknown>;
  /** RFC 7662: whether the token is good right now, and what Latchkey says of it. */
  introspect(token: string): Promise<Record<string, unknown>>;
  /** Opens the feed where it was left. The caller ends it by the signal. */
  feed(lastEventId: string | null, signal: AbortSignal): Promise<Response>;
}

type Call = Pick<RequestInit, 'method' | 'body'> & { headers?: Record<string, string> };

interface Endpoints {
  keys: string;
  introspection: string;
}

/** Milliseconds; the feed, which goes on for ever, has its own way of noticing that nothing comes. */
const TIMEOUT = 2000;

const METADATA = '/.well-known/oauth-authorization-server';
const FEED = '/api/auth/revocations';

/** The endpoints are found by RFC 8414, once. */
export function makeLatchkey(settings: Pick<Settings, 'issuer' | 'url' | 'client' | 'fetch'>): Latchkey {
  const { issuer, url, client, fetch } = settings;
  const authorization = basic(client);
  let endpoints: Endpoints | null = null;
  let discovering: Promise<Endpoints> | null = null;

  /**
   * A redirect could lead the secret or a token astray. A connection that was kept may have been closed under the request:
   * that is tried once more, since nothing here changes anything.
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
    // Found anew, if it has moved.
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
      throw new VerifierError('unavailable', `${new URL(to).pathname} was not read: ${reasonOf(error)}`);
    }
  }

  /** Where Latchkey is reached under another address than its issuer, its endpoints are too. */
  function endpoint(name: string, value: unknown): string {
    const base = `${issuer.replace(/\/+$/, '')}/`;
    if (typeof value === 'string' && value.startsWith(base)) return `${url}/${value.slice(base.length)}`;
    throw new VerifierError('unavailable', `${METADATA} names no ${name} of this issuer`);
  }

  /** Once for all who wait for it. */
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
        // On a connection of its own: one that was kept would lead back to the replica that had just refused us.
        connection: 'close',
        ...(lastEventId !== null && { 'last-event-id': lastEventId }),
      };
      const response = await send(url + FEED, { headers, signal });
      const type = response.headers.get('content-type') ?? '';
      if (type.startsWith('text/event-stream')) return response;
      await response.body?.cancel().catch(() => undefined);
      throw new VerifierError(
        'unavailable',
        `${FEED} answered with ${type || 'nothing'}, which is no stream of events`,
      );
    },
  };
}

/** Latchkey answered, but not with what it was asked for. */
export class RefusedError extends VerifierError {
  readonly status: number;

  constructor(status: number, path: string) {
    super('unavailable', `${path} answered ${status}`);
    this.status = status;
  }
}

/** RFC 6749, section 2.3.1: both are form-encoded first. */
function basic({ id, secret }: Settings['client']): string {
  const [user, password] = [id, secret].map((text) => new URLSearchParams({ _: text }).toString().slice(2));
  return `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
}

/** The code that tells a refused connection from a time-out; a whole message might quote an address with a password. */
function reasonOf(error: unknown): string {
  const { name, code, cause } = Object(error) as { name?: string; code?: string; cause?: { code?: string } };
  return cause?.code ?? (typeof code === 'string' ? code : undefined) ?? name ?? 'unknown';
}
