/**
 * The ruler of verify: node:http without a framework, a token that a Map remembers, and one question to Redis. What
 * Fastify and our hooks cost beside it shows in the shares of the floor and of the service.
 *
 * Arguments: the number of sessions. Prints one line of JSON, as the floor does.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Redis } from 'ioredis';
import { generateKeyPairSync } from 'node:crypto';
import { createSigner, createVerifier } from 'fast-jwt';
import { makeCork, remembering } from './bare.ts';

interface Claims {
  sid: string;
  gen: number;
}

const SECONDS_IN_REDIS = 3600;
const env = process.env as Record<'REDIS_URL' | 'RULER_PREFIX', string>;
const redis = new Redis(env.REDIS_URL);
const cork = makeCork(redis);

const { privateKey, publicKey } = generateKeyPairSync('ec', {
  namedCurve: 'P-256',
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  publicKeyEncoding: { type: 'spki', format: 'pem' },
});
const sign = createSigner<Claims>({
  algorithm: 'ES256',
  key: privateKey,
  expiresIn: SECONDS_IN_REDIS * 1000,
});
const check = createVerifier({ algorithms: ['ES256'], key: publicKey });
const read = remembering((token) => check(token) as Claims);

const server = createServer((request, response) => {
  const { sid, gen } = read(request.headers.authorization?.slice('Bearer '.length) ?? '');
  cork();
  void redis.hmget(env.RULER_PREFIX + sid, 'gen', 'revoked').then(([latest, revoked]) => {
    const isGood = typeof latest === 'string' && Number(latest) <= gen && revoked === null;
    response.writeHead(isGood ? 200 : 401, { 'content-length': 0 }).end();
  });
});

const access = await Promise.all(
  Array.from({ length: Number(process.argv[2] ?? 200) }, async (_, i) => {
    await redis.hset(`${env.RULER_PREFIX}${i}`, { gen: 1 });
    await redis.expire(`${env.RULER_PREFIX}${i}`, SECONDS_IN_REDIS);
    return sign({ sid: `${i}`, gen: 1 });
  }),
);
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  process.stdout.write(`${JSON.stringify({ url: `http://127.0.0.1:${port}`, access, refresh: [] })}\n`);
});
process.on('SIGTERM', () => {
  process.exit();
});
