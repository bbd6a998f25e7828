import { domainToASCII } from 'node:url';

/** What REDIS_URL says, decoded. */
export interface RedisServer {
  /** A name in ASCII or an address without brackets; empty for this host. */
  host: string;
  port: number;
  hasTls: boolean;
  /** Empty if there is none. */
  username: string;
  /** Empty if there is none. */
  password: string;
  database: number;
}

const USUAL_PORT = 6379;

/**
 * The only place that reads REDIS_URL. @returns what is wrong with it, without the value, which holds a password
 */
export function readRedisUrl(text: string): RedisServer | string {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (!url || !['redis:', 'rediss:'].includes(url.protocol)) return 'must be a URL (redis:// or rediss://)';
  const [username, password, name] = [url.username, url.password, url.hostname].map(decoded);
  if (username === undefined || password === undefined)
    return 'must hold user and password as percent-encoded UTF-8: write % as %25';
  // Without a special scheme, URL keeps the host as it is.
  const host = domainToASCII(name ?? '').replace(/^\[(.*)\]$/, '$1');
  if (host === '' && url.hostname !== '') return 'must name a host or an address';
  if (url.port === '0') return 'must have a port from 1 to 65535';
  if (url.search !== '') return 'must not have a query';
  if (!/^\/?\d{0,5}$/.test(url.pathname) || url.hash !== '') return 'must end after the database number';
  return {
    host,
    username,
    password,
    hasTls: url.protocol === 'rediss:',
    port: Number(url.port || USUAL_PORT),
    database: Number(url.pathname.slice(1)),
  };
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
