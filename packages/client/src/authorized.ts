import { isYoung } from './pair.ts';
import type { Renewal } from './renewal.ts';
import { cancel } from './requests.ts';
import type { SessionStore } from './session-store.ts';

interface Call<Result> {
  send: (token: string) => Promise<Result>;
  responseOf: (result: Result) => Response;
  signal?: AbortSignal | null | undefined;
  /** Whether its body is a stream, which is used up by the first try. */
  isOnce?: boolean;
}

/** Sends with the access token, and once more with another one if that was refused. */
export function makeAuthorized(store: SessionStore, renewal: Renewal) {
  return async function authorized<Result>(call: Call<Result>): Promise<Result> {
    const { send, responseOf, signal, isOnce = false } = call;
    const begun = await renewal.fresh(signal);
    const result = await send(begun.access);
    if (isOnce || !isTokenRefused(responseOf(result))) return result;
    const held = await store.read();
    if (held?.user.id !== begun.user.id) return result;
    // A service that refuses every token must not cause a refresh for each call.
    if (held.access === begun.access && isYoung(held)) return result;
    cancel(responseOf(result));
    return send((await renewal.another(begun, signal)).access);
  };
}

/** RFC 6750. Without CORS headers for it, a page cannot read the challenge. */
function isTokenRefused({ status, headers }: Response): boolean {
  return status === 401 && /^$|error="?invalid_token/.test(headers.get('www-authenticate') ?? '');
}
