/**
 * What the agent is measured against: node:http, and a check of the token by fast-jwt, from its cache after the first
 * time. It has one key, and hears of no revocation. JWK is the key. Prints where it serves.
 */
import { createPublicKey, type JsonWebKey } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createVerifier } from 'fast-jwt';

const jwk = JSON.parse(process.env.JWK ?? '') as JsonWebKey;
const key = createPublicKey({ key: jwk, format: 'jwk' }).export({ type: 'spki', format: 'pem' });
const read = createVerifier({ key, algorithms: ['ES256'], allowedAud: 'latchkey', cache: 10_000 });

const server = createServer(({ headers }, response) => {
  const { sub, sid } = read((headers.authorization ?? '').slice(7)) as { sub: string; sid: number };
  response.writeHead(200, { 'x-auth-user': sub, 'x-auth-session': sid, 'content-length': 0 }).end();
});
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  process.stdout.write(`${JSON.stringify({ msg: 'serving', url: `http://127.0.0.1:${port}` })}\n`);
});
