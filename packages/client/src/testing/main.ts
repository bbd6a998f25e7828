import { createClient, type Client, type ClientOptions } from '../create-client.ts';
import { lower, makeAnswers, Refusal, type Asked, type Code, type OperationId } from './answers.ts';
import { PROBLEMS, type ROUTES } from './api.ts';
import { makeState } from './state.ts';

export type { Code, OperationId };

/** An account that exists from the beginning. */
export interface TestUser {
  username: string;
  password: string;
  /** Default: the username. */
  name?: string | undefined;
  /** Default: the username at example.com. */
  email?: string | undefined;
  roles?: readonly string[] | undefined;
}

/** A Latchkey with default settings, in the memory of this process. No member needs `this`. */
export interface TestServer {
  url: string;
  /** What reaches it. It rejects for any other URL, and for what is no operation of `client.request`. */
  fetch: typeof globalThis.fetch;
  /** A real client of this server, with memory for its storage. */
  client: (options?: ClientOptions) => Client;
  /** Ends a session, as an operator does. @throws RangeError if there is none */
  end: (sessionId: number) => void;
  /** Until it is turned off, every answer is 503 `unavailable`. */
  outage: (on: boolean) => void;
  /**
   * Refuses the next request of this operation. A second call refuses the one after it. With
   * `second_factor_required`, a login with the right password gets a `login_token`, with which
   * `completeLogin` takes every code.
   * @throws TypeError if the operation never answers this code
   */
  refuse: <Id extends OperationId>(operation: Id, code: (typeof ROUTES)[Id]['codes'][number]) => void;
}

/** RFC 6761 reserves the top-level domain, so that no real server has this name. */
const URL = 'https://latchkey.test';

type Input = Parameters<typeof globalThis.fetch>[0];

interface Answer {
  status: number;
  body: object;
  headers?: Record<string, string>;
}

/** @throws TypeError for an unknown option, and for a user without a username or password */
export function testServer(options: { users?: readonly TestUser[] } = {}): TestServer {
  const { users = [], ...unknown } = options;
  // A misspelt `users` would leave it without accounts.
  for (const name in unknown) throw new TypeError(`testServer has no option ${name}: use users`);
  const state = makeState();
  for (const {
    username,
    password,
    name = username,
    email = `${username}@example.com`,
    roles = [],
  } of users) {
    if (!username || !password) throw new TypeError('each of users needs a username and a password');
    state.addAccount({ username: lower(username), password, name, email: lower(email), roles: [...roles] });
  }
  const answers = makeAnswers(state);
  let isOut = false;
  let requests = 0;

  function answer(asked: Asked): Answer {
    try {
      if (isOut) throw new Refusal('unavailable');
      return { status: 200, body: answers.answer(asked) };
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return problemOf(error, asked.token !== null, `test-${requests}`);
    }
  }

  const fetch: typeof globalThis.fetch = async (input, init = {}) => {
    requests++;
    const asked = await read(input, init);
    const { status, body, headers } = answer(asked);
    return respond(status, JSON.stringify(body), {
      'content-type': status === 200 ? 'application/json; charset=utf-8' : 'application/problem+json',
      'cache-control': 'no-store',
      'x-request-id': `test-${requests}`,
      ...headers,
    });
  };

  return {
    url: URL,
    fetch,
    client: (options = {}) => createClient({ url: URL, fetch, ...options }),
    end(sessionId) {
      const holding = state.holding(sessionId);
      if (holding?.shown.type !== 'refresh') throw new RangeError(`there is no session ${sessionId}`);
      state.end(holding, 'admin');
    },
    outage(on) {
      isOut = on;
    },
    refuse(operation, code) {
      answers.refuse(operation, code);
    },
  };
}

/** @throws TypeError for a URL that is none of the server's; the signal's reason */
async function read(input: Input, init: RequestInit): Promise<Asked> {
  const request = Object(input) as Partial<Request>;
  const url = request.url ?? (input as string | globalThis.URL).toString();
  const { method = request.method ?? 'GET', headers = request.headers ?? {}, signal = request.signal } = init;
  const body = init.body ?? (await request.clone?.().text()) ?? '';
  if (signal?.aborted) throw signal.reason ?? Object.assign(new Error('aborted'), { name: 'AbortError' });
  if (!url.startsWith(`${URL}/`)) throw new TypeError(`the test server is at ${URL}, not at ${url}`);
  const [path = '', query = ''] = url.slice(URL.length).split('?');
  const entries = (Symbol.iterator in headers ? headers : Object.entries(headers)) as Iterable<
    [string, string]
  >;
  const [, sent = ''] = [...entries].find(([name]) => name.toLowerCase() === 'authorization') ?? [];
  const token = /^Bearer (.+)$/i.exec(sent)?.[1] ?? null;
  return { method: method.toUpperCase(), path, query, token, body: body as string };
}

function problemOf({ code, more }: Refusal, hasToken: boolean, requestId: string): Answer {
  const [status, title, detail] = PROBLEMS[code];
  const type = `urn:latchkey:error:${code}`;
  // RFC 6750: an error only for a token that is the reason.
  const isToken = hasToken && ['invalid_token', 'token_reused'].includes(code);
  return {
    status,
    body: { type, title, status, detail, code, request_id: requestId, ...more },
    headers: {
      ...(status === 401 && { 'www-authenticate': isToken ? 'Bearer error="invalid_token"' : 'Bearer' }),
      ...((status === 429 || status === 503) && { 'retry-after': '1' }),
    },
  };
}

/** Made by hand, because jsdom has no `Response`. */
function respond(status: number, text: string, headers: Record<string, string>): Response {
  if (typeof Response === 'function') return new Response(text, { status, headers });
  return {
    status,
    ok: status === 200,
    body: null,
    headers: { get: (name: string) => headers[name.toLowerCase()] ?? null },
    text: () => Promise.resolve(text),
    json: () => Promise.resolve(JSON.parse(text) as unknown),
  } as unknown as Response;
}
