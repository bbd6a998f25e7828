import { allowedUrl, originOf, pageOrigin } from './origins.ts';

/** As many as `fetch` follows. */
const REDIRECTS = 20;

export type Send = ReturnType<typeof makeSend>;

/**
 * Every request of the client goes out here. By default it follows redirects within the origin, so that no token and no
 * body gets to another one. It hands over one that would turn the request into a GET.
 * @throws LatchkeyError `origin_not_allowed` for a redirect to another origin
 */
export function makeSend(fetch: typeof globalThis.fetch) {
  return async function send(
    input: string | Request,
    init: RequestInit,
    left = REDIRECTS,
  ): Promise<Response> {
    const asked = Object(input) as Partial<Request>;
    const url = asked.url ?? (input as string);
    const { method = asked.method ?? 'GET', redirect = asked.redirect ?? 'follow' } = init;
    const isFollowed = redirect === 'follow';
    const origin = originOf(url);
    const response = await fetch(asked.clone?.() ?? input, {
      ...init,
      // A page is not told where a redirect leads. In this mode, its platform follows it within the page’s origin only.
      ...(isFollowed && (origin === pageOrigin() ? { mode: 'same-origin' } : { redirect: 'manual' })),
    });
    const { status, headers } = response;
    const location = /^30[12378]$/.test(`${status}`) ? headers.get('location') : null;
    const isSame = status > 303 || /^(GET|HEAD)$/i.test(method);
    // A page sees a redirect as a status of 0.
    if (!isFollowed || (status && !(location && isSame && left))) return response;
    const next = allowedUrl(new URL(location ?? 'redirect:', url).href, [origin]);
    cancel(response);
    return send(asked.url ? new Request(next, input as Request) : next, init, left - 1);
  };
}

/** Frees the connection. React Native’s responses have no body. */
export function cancel({ body }: Response): void {
  body?.cancel().catch(() => null);
}
