import type { OnDate, VerifierClock } from './clock.ts';
import { basicCredentials, type Credentials } from './credentials.ts';
import type { Connected } from './options.ts';
import { makeServiceCredentials, readAssertion } from './service-credentials.ts';
import {
  invalid,
  reasonOf,
  unavailable,
  VerifierError,
  type OutageReason,
  type VerifierErrorOption,
} from './verifier-error.ts';

/** Requests to Latchkey, as this client. Each fails with a `VerifierError`, which is `unavailable` unless it says otherwise. */
export interface Connection {
  /** Discovered once (RFC 8414). */
  endpoints: () => Endpoints | Promise<Endpoints>;
  json: (to: string, call?: Call) => Promise<Answer>;
  /** Returns an answer with the status 200, whose body has yet to be read. */
  send: (to: string, init: RequestInit, refusals?: Refusals) => Promise<Response>;
  /** Asks once more if Latchkey refuses a token of this client that can be replaced. */
  asClient: <Result>(
    right: string,
    call: (headers: { authorization: string }, mistakes: Mistakes) => Promise<Result>,
  ) => Promise<Result>;
  /** A token of this client itself (RFC 6749, section 4.4). */
  ownToken: (audience: string) => Promise<Answer>;
  /** A token for one audience in place of the user's (RFC 8693). @throws VerifierError `invalid_token` as well */
  exchange: (subject: string, audience: string) => Promise<Answer>;
  /** Renews no token of this client from then on. */
  close: () => void;
}

/** A body in JSON, unchecked. */
type Answer = Record<string, unknown>;

/** By status: what is wrong with the client, and stays wrong until an operator or developer corrects it. */
type Mistakes = Readonly<Record<number, string>>;

interface Refusals {
  /** For requests with the client's credentials. */
  mistakes?: Mistakes | undefined;
  /** Reads what an answer other than 200 means; undefined if its status says that. */
  read?: ((response: Response) => Promise<VerifierError | undefined>) | undefined;
  /** An older Latchkey answers 404, which says nothing of its other endpoints. */
  isNewer?: boolean | undefined;
}

type Call = Pick<RequestInit, 'method' | 'body'> &
  Refusals & {
    headers?: Record<string, string>;
    /** Gives up before the timeout. */
    signal?: AbortSignal | undefined;
    /** Throws if the answer's headers show a mistake. */
    check?: (answered: Headers) => void;
  };

interface Endpoints {
  keys: string;
  introspection: string;
  token: string;
}

interface Parts {
  settings: Connected;
  clock: VerifierClock;
  /** Called after each renewal of this client's own token, with null if it worked. */
  onRenew: (failure: VerifierError | null) => void;
  onDate?: OnDate | undefined;
}

/** RFC 9110, section 5.6.7, without the obsolete forms: `Date.parse` would take almost anything. */
const DATE = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/** Milliseconds. Not for the feed, which never ends and detects silence itself. */
const TIMEOUT = 2000;

/** What OpenSSL makes of an answer in plain HTTP. */
const NO_TLS = /^ERR_SSL_(WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG)$/;

const METADATA = '/.well-known/oauth-authorization-server';
const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer';
const TOKEN_EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange';
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token';

export function makeConnection({ settings, clock, onRenew, onDate }: Parts): Connection {
  const { issuer, url, client, fetch } = settings;
  const credentials: Credentials =
    'assertion' in client
      ? makeServiceCredentials({
          assertion: client.assertion,
          request: (assertion) => tokenByAssertion(assertion, issuer),
          clock,
          onRenew,
        })
      : basicCredentials(client);
  const metadata = url + METADATA;
  const { origin, pathname: folder } = new URL(url);
  /** Without the user and password that a URL may hold. */
  const noLatchkey = `no Latchkey at ${(origin + folder).replace(/\/+$/, '')}`;
  let found: Endpoints | null = null;
  let discovering: Promise<Endpoints> | null = null;

  /**
   * Follows no redirect, which could send the secret or a token to another server. Retries once, because the server may
   * have closed a keep-alive connection; each of these requests may arrive twice.
   */
  async function send(to: string, init: RequestInit, refusals: Refusals = {}): Promise<Response> {
    const { pathname, origin } = new URL(to);
    // Async, because a service's own `fetch` may throw before it returns a promise.
    const attempt = async () => {
      const sent = clock.now();
      const answer = await fetch(to, { redirect: 'manual', ...init });
      noteDate(answer.headers, sent);
      return answer;
    };
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
    const known = await refusals.read?.(response);
    await response.body?.cancel().catch(() => undefined);
    // The endpoint may have moved: discover again.
    if (response.status === 404 && !refusals.isNewer) found = null;
    throw known ?? refusal(to, response.status, refusals.mistakes);
  }

  /** A cache that sends `Age` answers with the `Date` of an earlier answer. */
  function noteDate(answered: Headers, sent: number): void {
    const text = answered.get('date') ?? '';
    const date = DATE.test(text) && !answered.has('age') ? Date.parse(text) : NaN;
    if (!Number.isNaN(date)) onDate?.(date, sent, clock.now());
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

  async function json(to: string, call: Call = {}): Promise<Answer> {
    const { headers, mistakes, read, isNewer, check, signal: given, ...init } = call;
    const accept = { accept: 'application/json' };
    const timeout = AbortSignal.timeout(TIMEOUT);
    const signal = given ? AbortSignal.any([given, timeout]) : timeout;
    const request = { ...init, signal, headers: { ...accept, ...headers } };
    const response = await send(to, request, { mistakes, read, isNewer });
    const body = await response.json().catch((error: unknown) => {
      const reason: OutageReason = error instanceof SyntaxError ? 'unexpected_answer' : 'unreachable';
      const isOther = to === metadata && reason === 'unexpected_answer';
      const what = `${new URL(to).pathname} returned a malformed answer: ${reasonOf(error)}`;
      throw unavailable(reason, isOther ? `${noLatchkey}: ${what}` : what, { option: 'url' });
    });
    check?.(response.headers);
    return Object(body) as Answer;
  }

  /** Moves an endpoint from the issuer's address to `url`, if they differ. */
  function endpoint(name: string, value: unknown): string {
    const base = `${issuer.replace(/\/+$/, '')}/`;
    if (typeof value === 'string' && value.startsWith(base)) return `${url}/${value.slice(base.length)}`;
    throw unavailable('configuration', `${METADATA} names no ${name} of this issuer`, { option: 'issuer' });
  }

  /** Concurrent calls share one discovery. */
  function endpoints(): Endpoints | Promise<Endpoints> {
    return (
      found ??
      (discovering ??= discover().finally(() => {
        discovering = null;
      }))
    );
  }

  async function discover(): Promise<Endpoints> {
    const document = await json(metadata);
    // RFC 8414, section 3.3: another issuer's metadata may not be used.
    if (document.issuer !== issuer) {
      throw unavailable('configuration', `${METADATA} is of another issuer`, {
        option: 'issuer',
        expected: issuer,
        found: document.issuer,
        words: ['the setting is', "Latchkey's is"],
      });
    }
    return (found = {
      keys: endpoint('jwks_uri', document.jwks_uri),
      introspection: endpoint('introspection_endpoint', document.introspection_endpoint),
      token: endpoint('token_endpoint', document.token_endpoint),
    });
  }

  async function asClient<Result>(
    right: string,
    call: (headers: { authorization: string }, mistakes: Mistakes) => Promise<Result>,
  ): Promise<Result> {
    const mistakes = { 401: credentials.mistake, 403: missing(right) };
    const authorization = await credentials.authorization();
    return call({ authorization }, mistakes).catch(async (error: unknown) => {
      const isRefused = error instanceof RefusedError && error.answered === 401;
      if (!isRefused || !credentials.refused(authorization)) throw error;
      return call({ authorization: await credentials.authorization() }, mistakes);
    });
  }

  async function token(form: Record<string, string>, audience: string, call: Call): Promise<Answer> {
    const { token: to } = await endpoints();
    const body = new URLSearchParams({ ...form, audience });
    const read = (response: Response) => readRefusal(response, audience);
    return json(to, { method: 'POST', body, read, ...call });
  }

  /** RFC 7523, section 2.2. */
  function tokenByAssertion(assertion: string, audience: string): Promise<Answer> {
    const form = {
      grant_type: 'client_credentials',
      client_assertion_type: ASSERTION_TYPE,
      client_assertion: assertion,
    };
    const mistakes = {
      401: "client.assertion was refused, and Latchkey's log says why",
      403: missing(`call:${audience}`),
    };
    return token(form, audience, { mistakes });
  }

  return {
    endpoints,
    json,
    send,
    asClient,
    // Latchkey takes no token of this client for another one, so a client without a secret presents its assertion.
    async ownToken(audience) {
      if ('assertion' in client) return tokenByAssertion(await readAssertion(client.assertion), audience);
      return asClient(`call:${audience}`, (headers, mistakes) =>
        token({ grant_type: 'client_credentials' }, audience, { headers, mistakes }),
      );
    },
    exchange(subject, audience) {
      const form = {
        grant_type: TOKEN_EXCHANGE,
        subject_token: subject,
        subject_token_type: ACCESS_TOKEN,
      };
      return asClient('exchange', (headers, mistakes) => token(form, audience, { headers, mistakes }));
    },
    close() {
      credentials.close();
    },
  };
}

function missing(right: string): string {
  return `the client has no right \`${right}\``;
}

/**
 * Only Latchkey's own refusal may end in a 401 of this service: a proxy in between may answer anything with the same
 * status.
 */
async function readRefusal(response: Response, audience: string): Promise<VerifierError | undefined> {
  const { status } = response;
  if (status !== 400 && status !== 401 && status !== 403) return undefined;
  const { type, code } = Object(await response.json().catch(() => null)) as Answer;
  const isLatchkeys = type === `urn:latchkey:error:${String(code)}`;
  if (isLatchkeys && code === 'invalid_subject_token')
    return invalid('inactive', 'Latchkey refuses to exchange it');
  if (isLatchkeys && code === 'invalid_target')
    return unavailable('configuration', 'Latchkey issues no token for this audience', {
      option: 'audience',
      expected: 'that of a registered service',
      found: audience,
    });
  // `invalid_token` is that of this client itself, which is renewed: a user's is `invalid_subject_token`.
  const ofClient = ['invalid_client', 'invalid_token', 'right_missing'];
  if (isLatchkeys && ofClient.includes(String(code))) return undefined;
  const what = `the token endpoint answered ${status}, but not as Latchkey does`;
  return unavailable('unexpected_answer', what, { option: 'url' });
}

/** @param origin of the request: without the user and password that a URL may hold */
function whyNot(error: unknown, origin: string): string {
  const reason = reasonOf(error);
  if (reason === 'TimeoutError') return `nothing came from ${origin} within ${TIMEOUT / 1000} s`;
  return NO_TLS.test(reason) ? `${reason}: ${origin} speaks no TLS, is it http?` : reason;
}

/** The server at `url` answered with a status other than 200. */
export class RefusedError extends VerifierError {
  /** The status. It has another name, because Express and Fastify answer with the `status` of an error that nobody caught. */
  readonly answered: number;

  constructor(answered: number, reason: OutageReason, message: string, option?: VerifierErrorOption) {
    super('unavailable', reason, message, { option });
    this.answered = answered;
  }
}

/** Whether this Latchkey is too old to have the operation. Where its path fits another operation, the answer is 405. */
export function isFromOlder(error: unknown): boolean {
  return error instanceof RefusedError && [404, 405].includes(error.answered);
}
