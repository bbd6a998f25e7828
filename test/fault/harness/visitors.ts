import { anAccount, bearer, claimsOf, headerOf, type Pair } from '../../support/client.ts';
import { KEYS } from '../../support/keys.ts';
import { forge } from '../../support/tokens.ts';

/** A client with its own address; a proxy forwards its requests and names that address. */
export interface Visitor {
  signUp: (account?: ReturnType<typeof anAccount>) => Promise<Pair>;
  logIn: (username: string, password?: string) => Promise<Response>;
  /** The second step of a login, with a code of an app. */
  completeLogin: (loginToken: string, code: string) => Promise<Response>;
  refresh: (token: string, userAgent?: string) => Promise<Response>;
  verify: (token: string) => Promise<number>;
  /** Any other request with a token. */
  ask: (method: string, path: string, token: string, body?: object) => Promise<Response>;
}

export function visitor(url: string, address: string): Visitor {
  const send = async (method: string, path: string, options: { headers?: object; body?: object } = {}) => {
    const { headers = {}, body } = options;
    const response = await fetch(url + path, {
      method,
      headers: {
        'x-forwarded-for': address,
        ...(body && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body && { body: JSON.stringify(body) }),
    });
    // Reads the body at once, so that an unread answer does not hold a connection.
    const text = await response.text();
    return new Response(text === '' ? null : text, { status: response.status, headers: response.headers });
  };
  return {
    async signUp(account = anAccount()) {
      const response = await send('POST', '/api/auth/signup', { body: account });
      if (response.status !== 200) throw new Error(`no pair: ${response.status} ${await response.text()}`);
      return (await response.json()) as Pair;
    },
    logIn: (username, password = 'difference engine') =>
      send('POST', '/api/auth', { body: { username, password } }),
    completeLogin: (login_token, code) =>
      send('POST', '/api/auth/second-factor', { body: { login_token, code } }),
    refresh: (token, userAgent = 'Firefox') =>
      send('GET', '/api/auth/refresh', { headers: { ...bearer(token), 'user-agent': userAgent } }),
    verify: async (token) => (await send('GET', '/api/auth/verify', { headers: bearer(token) })).status,
    ask: (method, path, token, body) => send(method, path, { headers: bearer(token), ...(body && { body }) }),
  };
}

/** Runs a task this many times, with limited concurrency. @returns the results. */
export async function times<Result>(count: number, work: (i: number) => Promise<Result>): Promise<Result[]> {
  const results: Result[] = [];
  for (let i = 0; i < count; i += 20)
    results.push(
      ...(await Promise.all(Array.from({ length: Math.min(20, count - i) }, (_, j) => work(i + j)))),
    );
  return results;
}

/** A token with a forged signature, and one with an unknown key. */
export function forgedFrom(token: string): { signature: string; unknownKey: string } {
  return {
    signature: `${token.slice(0, -8)}AAAAAAAA`,
    unknownKey: forge({ ...headerOf(token), kid: 'unknown' }, claimsOf(token), KEYS.ES256()),
  };
}
