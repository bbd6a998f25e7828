import { BlockList, isIP } from 'node:net';
import type { Config } from './config.ts';

/** A connection in production that others on the network can read. */
export interface TransportWarning {
  /** The variable that configures it. */
  variable: 'REDIS_URL' | 'DATABASE_URL' | 'ISSUER';
  /** Without the value: it may hold a secret. */
  found: string;
  todo: string;
}

type Settings = Pick<
  Config,
  'production' | 'REDIS_URL' | 'REDIS_MODE' | 'REDIS_NODES' | 'DATABASE_URL' | 'ISSUER'
>;

/** Connections that production makes without TLS. Connections within the host do not count. */
export function transportWarnings(config: Settings): TransportWarning[] {
  if (!config.production) return [];
  const warnings: TransportWarning[] = [];
  if (isRedisPlain(config)) {
    warnings.push({
      variable: 'REDIS_URL',
      found: 'redis:// to another host: password and session states are sent without TLS',
      todo: 'use rediss:// and, for a CA of your own, REDIS_CA',
    });
  }
  if (isDatabasePlain(config)) {
    warnings.push({
      variable: 'DATABASE_URL',
      found: 'no TLS to another host: password hashes and e-mail addresses are sent unencrypted',
      todo: 'add sslmode=verify-full to its query and, for a CA of your own, DATABASE_CA',
    });
  } else if (isDatabaseUnchecked(config)) {
    warnings.push({
      variable: 'DATABASE_URL',
      found: 'TLS with any certificate: another server could pose as PostgreSQL',
      todo: 'use sslmode=verify-full and, for a CA of your own, DATABASE_CA',
    });
  }
  if (config.ISSUER.startsWith('http:')) {
    warnings.push({
      variable: 'ISSUER',
      found: 'begins with http://: verifiers would fetch the public keys without TLS',
      todo: 'serve behind TLS, and use the https:// address; tokens of the old issuer are refused from then on',
    });
  }
  return warnings;
}

/** Sentinel and Cluster ignore the host of the URL. */
function isRedisPlain({ REDIS_URL: url, REDIS_MODE: mode, REDIS_NODES: nodes }: Settings): boolean {
  if (url === undefined) return false;
  const { protocol, hostname } = new URL(url);
  const hosts = mode === 'single' ? [hostname] : nodes.map(({ host }) => host);
  return protocol === 'redis:' && !hosts.every(isThisHost);
}

/** Reads the query as pg does: without an `ssl…` parameter, or with one that disables it, there is no TLS. */
function isDatabasePlain({ DATABASE_URL: url }: Settings): boolean {
  if (url === undefined || isLocal(url)) return false;
  const { searchParams: query } = new URL(url);
  const mode = query.get('sslmode');
  if (mode !== null) return mode === 'disable' || mode === '';
  const isOn =
    ['true', '1', 'no-verify'].includes(query.get('ssl') ?? '') ||
    query.get('sslnegotiation') === 'direct' ||
    ['sslcert', 'sslkey', 'sslrootcert'].some((name) => query.has(name));
  return !isOn;
}

function isLocal(url: string): boolean {
  const { hostname, searchParams: query } = new URL(url);
  const host = query.get('host') ?? decodeURIComponent(hostname);
  return host.startsWith('/') || isThisHost(host);
}

/** Whether pg accepts any certificate. */
function isDatabaseUnchecked({ DATABASE_URL: url }: Settings): boolean {
  if (url === undefined || isLocal(url)) return false;
  const query = new URL(url).searchParams;
  const mode = query.get('sslmode') ?? '';
  if (mode === 'no-verify' || query.get('ssl') === 'no-verify') return true;
  const isLibpq = query.get('uselibpqcompat') === 'true';
  return isLibpq && (mode === 'prefer' || (mode === 'require' && !query.has('sslrootcert')));
}

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8);
LOOPBACK.addAddress('::1', 'ipv6');

/** An empty host counts as this host: both drivers then use localhost. */
function isThisHost(host: string): boolean {
  const address = host.replace(/^\[(.*)\]$/, '$1');
  const family = isIP(address);
  if (family !== 0) return LOOPBACK.check(address, family === 6 ? 'ipv6' : 'ipv4');
  return address === '' || address === 'localhost' || address.endsWith('.localhost');
}
