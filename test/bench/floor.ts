/**
 * The floor: the smallest server that does the same crypto and the same Redis calls for verify and refresh as the
 * service. One static key, no checks, limits, logs or metrics. It measures the least cost of these two requests in
 * this stack; the service is measured as a share of it (see bench.ts).
 */
import fastifyJwt from '@fastify/jwt';
import fastify, { type FastifyRequest } from 'fastify';
import { Redis } from 'ioredis';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseSigningKey } from '../../src/infra/crypto/keys.ts';
import { defineScripts } from '../../src/infra/redis/connection/scripts.ts';
import { PairSchema } from '../../src/http/token-pair-response.ts';

interface FloorClaims {
  sub: string;
  sid: number;
  gen: number;
}

type Jwt = { sign(claims: object): string; verify(token: string): FloorClaims };

const env = process.env as Record<
  'REDIS_URL' | 'REDIS_PREFIX' | 'SIGNING_KEYS_DIR' | 'REFRESH_TOKEN_SECRET' | 'ISSUER',
  string
>;
const pem = readFileSync(join(env.SIGNING_KEYS_DIR, '0001.pem'), 'utf8');
const { privateKey, publicKey } = parseSigningKey(pem, '0001.pem');
const redis = defineScripts(new Redis(env.REDIS_URL));
const app = fastify();

const common = { iss: env.ISSUER, aud: 'latchkey' };
await app.register(fastifyJwt, {
  namespace: 'access',
  secret: { private: privateKey, public: publicKey },
  sign: { algorithm: 'ES256', kid: 'floor', ...common },
  verify: { algorithms: ['ES256'], cache: 10_000 },
});
await app.register(fastifyJwt, {
  namespace: 'refresh',
  secret: Buffer.from(env.REFRESH_TOKEN_SECRET, 'base64url'),
  sign: { algorithm: 'HS256', kid: 'floor', ...common },
  verify: { algorithms: ['HS256'] },
});

const { access, refresh } = app.jwt as unknown as Record<'access' | 'refresh', Jwt>;

app.get('/api/auth/verify', async (request, reply) => {
  const { sub, sid, gen } = access.verify(tokenOf(request));
  const [outcome] = await redis.checkAccess(...keysOf(sub, sid), gen);
  return reply.code(outcome === 'good' ? 200 : 401).send('');
});

app.get('/api/auth/refresh', { schema: { response: { 200: PairSchema } } }, async (request) => {
  const { sub, sid, gen } = refresh.verify(tokenOf(request));
  const sentAt = (performance.timeOrigin + performance.now()) * 1000;
  const reply = await redis.rotate(...keysOf(sub, sid), gen, 0, 10_000_000, 'client', 3600, 7200, sentAt);
  const [, , , latest, , , , , , username, name, created] = reply;
  const iat = Math.floor(Number(latest) / 1_000_000);
  const claims = { sub, sid, gen: Number(latest), jti: `${sid}.${latest}`, iat };
  return {
    access_token: access.sign({ ...claims, exp: iat + 900 }),
    refresh_token: refresh.sign({ ...claims, exp: iat + 2_592_000 }),
    user: { id: Number(sub), username, name, created_at: new Date(Number(created)).toISOString() },
  };
});

const url = await app.listen({ host: '127.0.0.1', port: 0 });
process.stdout.write(`${JSON.stringify({ msg: 'serving', url })}\n`);
process.on('SIGTERM', () => {
  process.exit();
});

function tokenOf({ headers }: FastifyRequest): string {
  return headers.authorization?.slice('Bearer '.length) ?? '';
}

function keysOf(sub: string, sid: number): [string, string] {
  return [`${env.REDIS_PREFIX}{${sub}}:t:${sid}`, `${env.REDIS_PREFIX}{${sub}}:u`];
}
