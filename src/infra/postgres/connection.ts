import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import pg from 'pg';
import { holdsCertificates } from '../tls/certificates.ts';

/**
 * How pg reaches the server.
 * @param url DATABASE_URL. With a `ca`, its sslmode is verify-full (config/config.ts).
 * @param ca DATABASE_CA.
 */
export function connectionOf(
  url: string,
  ca: string | undefined,
): Pick<pg.ClientConfig, 'connectionString' | 'ssl'> {
  if (ca === undefined) return { connectionString: url };
  // pg would replace our `ssl` by the one that it makes of these parameters.
  const address = new URL(url);
  const take = (name: string) => {
    const value = address.searchParams.get(name) ?? undefined;
    address.searchParams.delete(name);
    return value;
  };
  const [cert, key] = [take('sslcert'), take('sslkey')].map((file) => file && readFileSync(file, 'utf8'));
  const [, negotiation] = [take('sslmode'), take('sslnegotiation')];
  return {
    connectionString: address.href,
    ssl: { ca, ...(cert && { cert }), ...(key && { key }) },
    ...(negotiation !== undefined && { sslnegotiation: negotiation }),
  };
}

/**
 * Why pg could not use these, for a start that says so: makes a client as every later connection does, and what it needs
 * for TLS. Does not connect. The files that the URL names are read again by each connection, because they may be renewed.
 * @returns null if it can. Without a value, which may hold a password
 */
export function connectionProblem(url: string, ca: string | undefined): string | null {
  const client = clientOf(url, ca);
  if (client === null)
    return 'must be a URL in percent-encoded UTF-8 (% as %25); with uselibpqcompat, sslmode=verify-ca needs sslrootcert';
  const { host, port, user = '', password, database = '' } = client;
  if (!(port >= 1 && port <= 65_535)) return 'must have a port from 1 to 65535';
  if ([host, user, password, database].some((text) => typeof text === 'string' && text.includes('\0')))
    return 'must hold no NUL (%00)';
  const tls = Object(client.ssl) as { ca?: string; cert?: string; key?: string };
  if (tls.ca !== undefined && !holdsCertificates(tls.ca))
    return 'must name certificates in PEM as sslrootcert';
  try {
    createSecureContext({ ...(tls.cert && { cert: tls.cert }), ...(tls.key && { key: tls.key }) });
    return null;
  } catch {
    return 'must name a certificate and its key as sslcert and sslkey, in PEM and without a passphrase';
  }
}

/**
 * Which host pg connects to, and whether with TLS: `unchecked` accepts any certificate.
 * @returns null if pg cannot use these
 */
export function serverOf(
  url: string,
  ca: string | undefined,
): { host: string; tls: 'none' | 'unchecked' | 'checked' } | null {
  const client = clientOf(url, ca);
  if (client === null) return null;
  const { host, ssl } = client;
  if (!ssl) return { host, tls: 'none' };
  const { rejectUnauthorized = true } = Object(ssl) as { rejectUnauthorized?: boolean };
  return { host, tls: rejectUnauthorized ? 'checked' : 'unchecked' };
}

function clientOf(url: string, ca: string | undefined): pg.Client | null {
  try {
    return new pg.Client(connectionOf(url, ca));
  } catch {
    return null;
  }
}

/** For the log: which server and database a URL names. Without user and password. */
export function targetOf(url: string): { host: string; database: string } {
  const { host, port, database } = new pg.Client({ connectionString: url });
  return { host: `${host}:${port}`, database: database ?? '' };
}
