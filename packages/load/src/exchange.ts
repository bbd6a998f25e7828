import { request, type Dispatcher } from 'undici';

/** A registered service. */
export interface ServiceClient {
  clientId: string;
  secret: string;
}

export interface Call {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  path: string;
  token?: string;
  /** By HTTP Basic. */
  client?: ServiceClient;
  body?: object;
  userAgent?: string;
}

export interface Exchanged {
  status: number;
  /** Seconds of Retry-After; 0 if it is absent or a date. */
  retryAfter: number;
  /** X-Auth-User; null if absent. */
  user: string | null;
  /** X-Auth-Roles; null if absent. */
  roles: string | null;
  text: string;
}

/** Sends one request and reads the whole answer. @throws undici's error if the connection is lost or `signal` aborts. */
export async function exchange(
  dispatcher: Dispatcher,
  origin: string,
  call: Call,
  signal?: AbortSignal,
): Promise<Exchanged> {
  const { method, path, token, client, body, userAgent } = call;
  const response = await request(origin + path, {
    dispatcher,
    method,
    headers: {
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(client && { authorization: basic(client) }),
      ...(body && { 'content-type': 'application/json' }),
      ...(userAgent !== undefined && { 'user-agent': userAgent }),
    },
    body: body ? JSON.stringify(body) : null,
    ...(signal && { signal }),
  });
  const text = await response.body.text();
  const retryAfter = Number(response.headers['retry-after']) || 0;
  const header = (name: string) => {
    const value = response.headers[name];
    return typeof value === 'string' ? value : null;
  };
  const [user, roles] = [header('x-auth-user'), header('x-auth-roles')];
  return { status: response.statusCode, retryAfter, user, roles, text };
}

function basic({ clientId, secret }: ServiceClient): string {
  return `Basic ${Buffer.from(`${clientId}:${secret}`).toString('base64')}`;
}
