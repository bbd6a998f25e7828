import { TLSSocket } from 'node:tls';

/**
 * When the certificate of the server at the other end expires.
 * @param stream of a connection of a driver. @returns milliseconds since 1970; null without TLS.
 */
export function certificateEnd(stream: unknown): number | null {
  if (!(stream instanceof TLSSocket)) return null;
  // A socket that has been destroyed has no certificate.
  const end = Date.parse(stream.getPeerCertificate().valid_to);
  return Number.isNaN(end) ? null : end;
}

/** The earliest of them; null if there is none. */
export function earliest(ends: readonly (number | null)[]): number | null {
  const known = ends.filter((end) => end !== null);
  return known.length === 0 ? null : Math.min(...known);
}
