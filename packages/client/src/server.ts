import { LatchkeyError, type Problem } from './latchkey-error.ts';
import { originOf, pageOrigin } from './origins.ts';
import type { Send } from './requests.ts';

export interface Answer {
  response: Response;
  text: string;
}

interface Sending {
  token?: string | undefined;
  body?: unknown;
  /** Whether it is sent even if the page closes. */
  keepalive?: boolean;
  /** React Native adds a parameter to the URL for `no-store`, which only refresh takes. */
  cache?: 'no-store';
}

export type Server = ReturnType<typeof makeServer>;

/** Milliseconds for a request with its answer. */
const TIMEOUT = 10_000;

/** Latchkey at its URL. */
export function makeServer(url: string, request: Send) {
  /**
   * A browser does not let a page tell these apart. At the page’s own origin, only the first one is possible.
   */
  function suspects(): string {
    const page = pageOrigin();
    return page && page !== originOf(url)
      ? `: Latchkey is away, its CORS_ORIGINS lacks ${page}, or http and https are mixed`
      : '';
  }

  /** @throws LatchkeyError `no_answer` */
  async function exchange(method: string, path: string, sending: Sending = {}): Promise<Answer> {
    const { token, body, keepalive = false, cache } = sending;
    const content = body === undefined ? null : JSON.stringify(body);
    const cut = new AbortController();
    const timer = setTimeout(() => {
      cut.abort();
    }, TIMEOUT);
    try {
      const response = await request(url + path, {
        // Elsewhere, a refusal would be one of a request that has lost its token.
        redirect: 'error',
        method,
        keepalive,
        signal: cut.signal,
        body: content,
        ...(cache && { cache }),
        headers: {
          ...(token !== undefined && { authorization: `Bearer ${token}` }),
          ...(content !== null && { 'content-type': 'application/json' }),
        },
      });
      return { response, text: await response.text() };
    } catch (cause) {
      throw new LatchkeyError('no_answer', `no answer from ${url}${suspects()}`, { cause });
    } finally {
      clearTimeout(timer);
    }
  }

  return {
    exchange,
    /** @returns the parsed answer. @throws LatchkeyError for any answer but Latchkey’s 200 */
    send: async (...request: Parameters<typeof exchange>) => parseAnswer(await exchange(...request)),
  };
}

/** @throws LatchkeyError for any answer but Latchkey’s 200 */
export function parseAnswer({ response, text }: Answer): unknown {
  const body = parseJson(text);
  if (response.status === 200 && typeof body === 'object') return body;
  const { status, headers } = response;
  const { type, code, detail, request_id } = Object(body) as Partial<Problem>;
  const retryAfter = headers.get('retry-after') ?? '';
  const parts = {
    status,
    // A date would have to be compared with this device’s clock.
    retryAfter: /^\d+$/.test(retryAfter) ? Number(retryAfter) : undefined,
    requestId: headers.get('x-request-id') ?? request_id,
  };
  if (typeof code === 'string' && type === `urn:latchkey:error:${code}`)
    throw new LatchkeyError(code, detail ?? code, { ...parts, problem: body as Problem });
  throw unexpected(`an answer that is not Latchkey’s: ${status}`, parts);
}

export function unexpected(message: string, parts = {}): LatchkeyError {
  return new LatchkeyError('unexpected_answer', message, parts);
}

/** @returns undefined for anything but JSON */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
