import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { startRedis, type RedisServer } from './redis-server.ts';

/** A Redis that speaks TLS only, with a certificate of a CA of its own. */
export async function startTlsRedis(
  t: Test,
  ...args: string[]
): Promise<RedisServer & { /** The CA's certificate, PEM. */ ca: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'lk-tls-'));
  t.teardown(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  const file = (name: string) => join(folder, name);
  const openssl = (...rest: string[]) => execFileSync('openssl', rest, { stdio: 'pipe' });
  const key = (name: string) => [
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:P-256',
    '-nodes',
    '-keyout',
    file(name),
  ];
  openssl('req', '-x509', ...key('ca.key'), '-out', file('ca.pem'), '-subj', '/CN=test CA', '-days', '2');
  const issuer = ['-CA', file('ca.pem'), '-CAkey', file('ca.key')];
  const subject = ['-subj', '/CN=redis', '-addext', 'subjectAltName=IP:127.0.0.1', '-days', '2'];
  openssl('req', '-x509', ...key('redis.key'), '-out', file('redis.pem'), ...issuer, ...subject);

  const ca = readFileSync(file('ca.pem'), 'utf8');
  const tls = ['--tls-cert-file', file('redis.pem'), '--tls-key-file', file('redis.key')];
  const trust = ['--tls-ca-cert-file', file('ca.pem'), '--tls-auth-clients', 'no'];
  const server = await startRedis(t, {
    args: ['--port', '0', '--tls-port', '{port}', ...tls, ...trust, ...args],
    client: { tls: { ca } },
  });
  return { ...server, url: server.url.replace('redis:', 'rediss:'), ca };
}
