import type { Test } from 'tap';
import { makeCertificates } from './certificates.ts';
import { testFolder } from './folder.ts';
import { startRedis, type RedisServer } from './redis-server.ts';

/** A Redis that speaks TLS only, with a certificate of a CA of its own. */
export async function startTlsRedis(
  t: Test,
  ...args: string[]
): Promise<RedisServer & { /** The CA's certificate, PEM. */ ca: string }> {
  const { certFile, keyFile, caFile, ca } = makeCertificates(testFolder(t), 'redis');
  const tls = ['--tls-cert-file', certFile, '--tls-key-file', keyFile];
  const trust = ['--tls-ca-cert-file', caFile, '--tls-auth-clients', 'no'];
  const server = await startRedis(t, {
    args: ['--port', '0', '--tls-port', '{port}', ...tls, ...trust, ...args],
    client: { tls: { ca } },
  });
  return { ...server, url: server.url.replace('redis:', 'rediss:'), ca };
}
