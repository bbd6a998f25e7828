import { LatchkeyError } from './latchkey-error.ts';

/** Empty outside of a page. */
export function pageOrigin(): string {
  return (globalThis as { location?: { origin: string } }).location?.origin ?? '';
}

/**
 * Reads the origin without `URL`, which React Native has only in part.
 * @returns null for anything but an http(s) URL without a user name
 */
export function originOf(url: string): string | null {
  const [, origin = ''] = /^(https?:\/\/[^/?#\\@\s]+)(?:[/?#]|$)/i.exec(url) ?? [];
  // Letters of ASCII only: other ones may become another host than a browser's (ẞ is ß here, and ss there).
  const lower = origin.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
  return lower.replace(/^(http:.*):80$|^(https:.*):443$/, '$1$2') || null;
}

/**
 * @param text as `fetch` takes it. A path is one of the page.
 * @returns the complete URL. It begins with an allowed origin, as text, so that no parser reads another one.
 * @throws LatchkeyError `origin_not_allowed`
 */
export function allowedUrl(text: string, origins: readonly (string | null)[]): string {
  // As the URL standard does, before it looks for the scheme.
  const given = text.replace(/[\t\n\r]/g, '').trim();
  const url = /^\/(?![/\\])/.test(given) ? pageOrigin() + given : given;
  const origin = originOf(url);
  if (origin !== null && origins.includes(origin)) return url;
  throw new LatchkeyError(
    'origin_not_allowed',
    `neither url nor apis has the origin of ${url.split('?')[0]}`,
  );
}
