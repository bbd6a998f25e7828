/**
 * Where an issuer publishes which keys it has (OpenID Connect Discovery, section 4).
 * @returns null for an issuer whose keys cannot be fetched: its id is neither an https URL nor an http URL on loopback,
 * or it holds credentials, a query or a fragment.
 */
export function discoveryUrl(issuer: string): URL | null {
  const url = readUrl(issuer);
  if (!url || /[?#]/.test(issuer) || !(url.protocol === 'https:' || isLocalHttp(url))) return null;
  return new URL(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`);
}

/** The `jwks_uri` of an issuer's discovery. @returns null if it is less protected than the discovery itself. */
export function keysUrl(jwksUri: unknown, discovery: URL): URL | null {
  const url = typeof jwksUri === 'string' ? readUrl(jwksUri) : null;
  return url && (url.protocol === 'https:' || (isLocalHttp(url) && isLocalHttp(discovery))) ? url : null;
}

function readUrl(text: string): URL | null {
  const url = URL.canParse(text) ? new URL(text) : null;
  return url?.username === '' && url.password === '' ? url : null;
}

function isLocalHttp({ protocol, hostname }: URL): boolean {
  return protocol === 'http:' && /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname);
}
