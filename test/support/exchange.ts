import { request, type Dispatcher } from 'undici';

export interface Call {
  method: 'GET' | 'POST' | 'DELETE';
  path: string;
  token?: string;
  body?: object;
  userAgent?: string;
}

export interface Exchanged {
  status: number;
  /** Seconds of Retry-After; 0 if absent. */
  retryAfter: number;
  text: string;
}

/** Sends one request and reads the whole answer. @throws undici's error if the connection is lost or `signal` aborts. */
export async function exchange(
  dispatcher: Dispatcher,
  origin: string,
  call: Call,
  signal?: AbortSignal,
): Promise<Exchanged> {
  const { method, path, token, body, userAgent } = call;
  const response = await request(origin + path, {
    dispatcher,
    method,
    headers: {
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(body && { 'content-type': 'application/json' }),
      ...(userAgent !== undefined && { 'user-agent': userAgent }),
    },
    body: body ? JSON.stringify(body) : null,
    ...(signal && { signal }),
  });
  const text = await response.body.text();
  const retryAfter = Number(response.headers['retry-after'] ?? 0);
  return { status: response.statusCode, retryAfter, text };
}
