import { BlockList, isIP } from 'node:net';
import { serverOf } from '../infra/postgres/connection.ts';
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
  'production' | 'REDIS_URL' | 'REDIS_MODE' | 'REDIS_NODES' | 'DATABASE_URL' | 'DATABASE_CA' | 'ISSUER'
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
  const database = databaseTls(config);
  if (database === 'none') {
    warnings.push({
      variable: 'DATABASE_URL',
      found: 'no TLS to another host: password hashes and e-mail addresses are sent unencrypted',
      todo: 'add sslmode=verify-full to its query and, for a CA of your own, DATABASE_CA',
    });
  } else if (database === 'unchecked') {
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
function isRedisPlain({ REDIS_URL: server, REDIS_MODE: mode, REDIS_NODES: nodes }: Settings): boolean {
  if (server === undefined) return false;
  const reached = mode === 'single' ? [server] : nodes;
  return !server.hasTls && !reached.every(({ host }) => isThisHost(host));
}

/** As pg reads it. Null for a connection within the host. */
function databaseTls({ DATABASE_URL: url, DATABASE_CA: ca }: Settings) {
  const server = url === undefined ? null : serverOf(url, ca);
  return server === null || server.host.startsWith('/') || isThisHost(server.host) ? null : server.tls;
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
