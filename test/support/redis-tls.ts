import type { Test } from 'tap';
import { makeCertificates } from './certificates.ts';
import { testFolder } from './folder.ts';
import { startRedis, type RedisServer, type ServerOptions } from './redis-server.ts';

type TlsRedis = RedisServer & { /** The CA's certificate, PEM. */ ca: string };

/** A Redis that speaks TLS only, with a certificate of a CA of its own for 127.0.0.1. */
export function startTlsRedis(t: Test, ...args: string[]): Promise<TlsRedis> {
  return start(t, 'IP:127.0.0.1', { args });
}

/** The same with a certificate for the name `localhost` only. */
export async function startNamedTlsRedis(t: Test, options: ServerOptions = {}): Promise<TlsRedis> {
  const server = await start(t, 'DNS:localhost', options);
  return { ...server, url: server.url.replace('127.0.0.1', 'localhost') };
}

async function start(t: Test, holds: string, { args = [], ...options }: ServerOptions): Promise<TlsRedis> {
  const { certFile, keyFile, caFile, ca } = makeCertificates(testFolder(t), 'redis', holds);
  const tls = ['--tls-cert-file', certFile, '--tls-key-file', keyFile];
  const trust = ['--tls-ca-cert-file', caFile, '--tls-auth-clients', 'no'];
  const named = holds === 'DNS:localhost' && { servername: 'localhost' };
  const server = await startRedis(t, {
    ...options,
    args: ['--port', '0', '--tls-port', '{port}', ...tls, ...trust, ...args],
    client: { tls: { ca, ...named } },
  });
  return { ...server, url: server.url.replace('redis:', 'rediss:'), ca };
}
