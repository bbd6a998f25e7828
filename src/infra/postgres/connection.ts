import { readFileSync } from 'node:fs';
import pg from 'pg';

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

/** For the log: which server and database a URL names. Without user and password. */
export function targetOf(url: string): { host: string; database: string } {
  const { host, port, database } = new pg.Client({ connectionString: url });
  return { host: `${host}:${port}`, database: database ?? '' };
}
