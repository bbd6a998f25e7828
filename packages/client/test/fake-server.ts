import type { TokenStorage } from '../src/main.ts';

export interface Sent {
  line: string;
  token: string | undefined;
  body: unknown;
}

type Answer = Response | Promise<Response>;

/** Unsigned tokens: the client does not check them. */
export function aPair({
  session = 1,
  generation = 1,
  user = 7,
  lifetime = 900,
  roles = [] as string[],
} = {}) {
  const token = (type: string) => {
    const claims = {
      sid: session,
      gen: generation,
      sub: String(user),
      iat: 1000,
      exp: 1000 + lifetime,
      type,
    };
    return `e30.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.s`;
  };
  return {
    access_token: token('access'),
    refresh_token: token('refresh'),
    user: { id: user, username: `user${user}`, name: 'Ada', created_at: '2026-01-01T00:00:00.000Z', roles },
  };
}

export type GivenPair = ReturnType<typeof aPair>;

export function json(status: number, body: unknown, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify(body), { status, headers });
}

export function problem(status: number, code: string, headers: Record<string, string> = {}): Response {
  return json(status, { type: `urn:latchkey:error:${code}`, code, title: code, status }, headers);
}

/** What a service answers to a token that has ended (RFC 6750). */
export const tokenRefused = () =>
  new Response('', { status: 401, headers: { 'www-authenticate': 'Bearer error="invalid_token"' } });

/** Answers each request with the next answer for its line, and repeats the last one. */
export function fakeServer(answers: Record<string, readonly (() => Answer)[]>) {
  const sent: Sent[] = [];
  const left = new Map(Object.entries(answers).map(([line, each]) => [line, [...each]]));
  const fetch: typeof globalThis.fetch = async (input, init = {}) => {
    const request = input instanceof Request ? input : null;
    const line = `${init.method ?? request?.method ?? 'GET'} ${request?.url ?? (input as string | URL).toString()}`;
    const { authorization } = Object.fromEntries(new Headers(init.headers).entries());
    const body =
      typeof init.body === 'string' ? (JSON.parse(init.body) as unknown) : (init.body ?? undefined);
    sent.push({ line, token: authorization?.replace('Bearer ', ''), body });
    const next = left.get(line) ?? [];
    const answer = next.length > 1 ? next.shift() : next[0];
    if (!answer) throw new TypeError(`no answer to ${line}`);
    init.signal?.throwIfAborted();
    return answer();
  };
  return { fetch, sent, lines: () => sent.map(({ line }) => line) };
}

/** A storage that several clients share, as tabs do. @param delay whether it answers later, as AsyncStorage does */
export function sharedStorage(
  held?: GivenPair & { stored_at?: number },
  isSlow = false,
  url = 'https://id.example.com',
) {
  const items = new Map<string, string>();
  const later = <Value>(value: Value) =>
    isSlow ? new Promise<Value>((resolve) => setImmediate(resolve, value)) : value;
  const storage: TokenStorage = {
    getItem: (key) => later(items.get(key) ?? null),
    setItem: (key, text) => later(void items.set(key, text)),
    removeItem: (key) => later(void items.delete(key)),
  };
  const key = `latchkey.${url.replaceAll(':', '_3a').replaceAll('/', '_2f')}`;
  const put = (pair: object) => items.set(key, JSON.stringify({ stored_at: Date.now(), ...pair }));
  if (held) put(held);
  const stored = () => JSON.parse(items.get(key) ?? 'null') as (GivenPair & { stored_at: number }) | null;
  return { storage, items, put, stored };
}
