/**
 * The floor: the fastest bare server that we know for verify and refresh. It verifies and signs tokens of the same
 * algorithms, asks Redis once, and does nothing else: one static key, no checks, limits, logs, metrics or hooks.
 * `POST /credentials` parses a form, hashes a client's secret and signs a token, without Redis.
 * `GET /profile` checks an access token, asks Redis twice and reads one row by a named statement. `DELETE /logout`
 * checks its signature, revokes one row in a commit that it shares with others, and sets a tombstone. `GET /hello` is a
 * static document, and `GET /scrypt` one password hash. The service is measured as a share of it (docs/performance.md).
 *
 * Arguments: the number of sessions. Prints one line of JSON: `{ url, access: [tokens], refresh: [tokens] }`.
 */
import { createSigner, createVerifier } from 'fast-jwt';
import fastify, { type FastifyRequest, type FastifySchema } from 'fastify';
import { Redis } from 'ioredis';
import pg from 'pg';
import { createHash, generateKeyPairSync, randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import { parse } from 'node:querystring';
import { promisify } from 'node:util';
import { makeCork, remembering } from './bare.ts';

interface FloorClaims {
  sub: string;
  sid: string;
  gen: number;
}

/** Of every client (operations.ts). */
const BARE_SECRET = 'secret';
const SECONDS_IN_REDIS = 3600;
const ISSUER = 'https://floor.example';

const env = process.env as Record<
  'DATABASE_URL' | 'REDIS_URL' | 'FLOOR_PREFIX' | 'SCRYPT_LOG_N' | 'SCRYPT_R' | 'SCRYPT_P',
  string
>;
const redis = new Redis(env.REDIS_URL);

const { privateKey, publicKey } = generateKeyPairSync('ec', {
  namedCurve: 'P-256',
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  publicKeyEncoding: { type: 'spki', format: 'pem' },
});
const secret = randomBytes(32);
const lifetime = { iss: ISSUER, expiresIn: SECONDS_IN_REDIS * 1000 };
const signAccess = createSigner<FloorClaims>({ algorithm: 'ES256', key: privateKey, ...lifetime });
const signService = createSigner<Record<'sub' | 'aud' | 'jti', string>>({
  algorithm: 'ES256',
  key: privateKey,
  ...lifetime,
});
const signRefresh = createSigner<FloorClaims>({ algorithm: 'HS256', key: secret, ...lifetime });
const checks = { allowedIss: ISSUER };
const readNewAccess = createVerifier({ algorithms: ['ES256'], key: publicKey, ...checks });
const readAccess = remembering((token) => readNewAccess(token) as FloorClaims);
const readRefresh = createVerifier({ algorithms: ['HS256'], key: secret, ...checks });

/** KEYS[1] the session; ARGV the generation presented and the next one. */
const REPLACE = await redis.script(
  'LOAD',
  `if redis.call('HGET', KEYS[1], 'gen') ~= ARGV[1] then return 0 end
  redis.call('HSET', KEYS[1], 'gen', ARGV[2])
  return 1`,
);

const cork = makeCork(redis);

const app = fastify();

app.get('/hello', { schema: answering('hello') }, () => Promise.resolve({ hello: 'world' }));

app.get('/verify', async (request, reply) => {
  const { sid, gen } = readAccess(tokenOf(request));
  cork();
  const [latest, revoked] = await redis.hmget(env.FLOOR_PREFIX + sid, 'gen', 'revoked');
  const isGood = typeof latest === 'string' && Number(latest) <= gen && revoked === null;
  return reply.code(isGood ? 200 : 401).send('');
});

app.get('/refresh', { schema: answering('access_token', 'refresh_token') }, async (request, reply) => {
  const { sub, sid, gen } = readRefresh(tokenOf(request)) as FloorClaims;
  cork();
  const isReplaced = await redis.evalsha(REPLACE as string, 1, env.FLOOR_PREFIX + sid, gen, gen + 1);
  return isReplaced === 1 ? pairOf({ sub, sid, gen: gen + 1 }) : reply.code(401).send({});
});

const pool = new pg.Pool({ connectionString: env.DATABASE_URL, max: 10 });
await pool.query(`CREATE TABLE IF NOT EXISTS floor_tokens
  (id int PRIMARY KEY, name text NOT NULL DEFAULT 'Firefox', created_at timestamptz NOT NULL DEFAULT now(), revoked_at timestamptz)`);
const READ = { name: 'read', text: 'SELECT id, name, created_at FROM floor_tokens WHERE id = $1' };
const REVOKE = {
  name: 'revoke',
  text: 'UPDATE floor_tokens SET revoked_at = now() WHERE id = ANY($1::int[])',
};

let isCommitting = false;
let ended: { sid: string; resolve: () => void; reject: (error: unknown) => void }[] = [];

/** While one commit is under way, rows wait for the next one, which takes all of them, as in the service. */
function revoke(sid: string): Promise<void> {
  return new Promise((resolve, reject) => {
    ended.push({ sid, resolve, reject });
    if (!isCommitting) void commit();
  });
}

async function commit(): Promise<void> {
  isCommitting = true;
  while (ended.length > 0) {
    const taken = ended;
    ended = [];
    try {
      await pool.query({ ...REVOKE, values: [taken.map(({ sid }) => sid)] });
      for (const { resolve } of taken) resolve();
    } catch (error) {
      for (const { reject } of taken) reject(error);
    }
  }
  isCommitting = false;
}

app.get('/profile', { schema: answering('id', 'name', 'created_at') }, async (request) => {
  const { sid } = readAccess(tokenOf(request));
  // As the service does: whether the session is good, and when the user's tokens were last used.
  for (const field of ['gen', 'used']) {
    cork();
    await redis.hget(env.FLOOR_PREFIX + sid, field);
  }
  return (await pool.query({ ...READ, values: [sid] })).rows[0] as object;
});

app.delete('/logout', async (request, reply) => {
  // The service gets each token once here.
  const { sid } = readNewAccess(tokenOf(request)) as FloorClaims;
  await revoke(sid);
  cork();
  // Beside the session, which goes on: a token ends here more than once.
  await redis.set(`${env.FLOOR_PREFIX}ended:${sid}`, '1', 'EX', SECONDS_IN_REDIS);
  return reply.send('');
});

const FORM = 'application/x-www-form-urlencoded';
app.addContentTypeParser(FORM, { parseAs: 'string' }, (_request, body, done) => {
  done(null, parse(body as string));
});
const secretHash = hashOf(BARE_SECRET);

app.post('/credentials', { schema: answering('access_token', 'token_type') }, (request, reply) => {
  const [id = '', given = ''] = Buffer.from(basicOf(request), 'base64').toString().split(':');
  const { grant_type, audience } = request.body as Record<string, string | undefined>;
  const isGood = timingSafeEqual(hashOf(given), secretHash) && grant_type === 'client_credentials';
  if (!isGood || audience === undefined) return reply.code(401).send({});
  const claims = { sub: id, aud: audience, jti: randomBytes(16).toString('base64url') };
  return reply.send({ access_token: signService(claims), token_type: 'Bearer' });
});

const hash = promisify<string, Buffer, number, object, Buffer>(scrypt);
const cost = { N: 2 ** Number(env.SCRYPT_LOG_N), r: Number(env.SCRYPT_R), p: Number(env.SCRYPT_P) };

app.get('/scrypt', async (_request, reply) => {
  await hash('difference engine', randomBytes(32), 64, { ...cost, maxmem: 2 * 128 * cost.N * cost.r });
  return reply.send('');
});

const pairs = await Promise.all(
  Array.from({ length: Number(process.argv[2] ?? 200) }, (_, i) => begin(`${i}`)),
);
const url = await app.listen({ host: '127.0.0.1', port: 0 });
const access = pairs.map(({ access_token }) => access_token);
const refresh = pairs.map(({ refresh_token }) => refresh_token);
process.stdout.write(`${JSON.stringify({ url, access, refresh })}\n`);
process.on('SIGTERM', () => {
  process.exit();
});

async function begin(sid: string) {
  await pool.query('INSERT INTO floor_tokens (id) VALUES ($1)', [sid]);
  await redis.hset(env.FLOOR_PREFIX + sid, { gen: 1 });
  await redis.expire(env.FLOOR_PREFIX + sid, SECONDS_IN_REDIS);
  return pairOf({ sub: `user-${sid}`, sid, gen: 1 });
}

function pairOf(claims: FloorClaims) {
  return { access_token: signAccess(claims), refresh_token: signRefresh(claims) };
}

function tokenOf({ headers }: FastifyRequest): string {
  return headers.authorization?.slice('Bearer '.length) ?? '';
}

function basicOf({ headers }: FastifyRequest): string {
  return headers.authorization?.slice('Basic '.length) ?? '';
}

function hashOf(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** A schema makes Fastify write JSON faster. */
function answering(...names: string[]): FastifySchema {
  const properties = Object.fromEntries(names.map((name) => [name, { type: 'string' }]));
  return { response: { 200: { type: 'object', properties } } };
}
