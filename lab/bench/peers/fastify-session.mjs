// What people build by hand: Fastify with @fastify/session, and connect-redis as the store. Prints where it serves, and
// the cookies of its sessions.
import cookie from '@fastify/cookie';
import session from '@fastify/session';
import { RedisStore } from 'connect-redis';
import fastify from 'fastify';
import { createClient } from 'redis';

const { PEER_PREFIX, PEER_REDIS_URL, PEER_SECRET, PEER_SESSIONS } = process.env;

const client = createClient({ url: PEER_REDIS_URL });
await client.connect();

const app = fastify();
app.register(cookie);
app.register(session, {
  secret: PEER_SECRET,
  store: new RedisStore({ client, prefix: PEER_PREFIX }),
  // As the documentation asks for connections without TLS.
  cookie: { secure: false },
  saveUninitialized: false,
  // The default writes the session at each request. A check only reads it.
  rolling: false,
});
app.post('/login', (request, reply) => {
  request.session.user = { id: request.body.id, name: `User ${request.body.id}` };
  reply.send({ ok: true });
});
app.get('/session', (request, reply) => {
  if (!request.session.user) return reply.code(401).send({ error: 'unauthorized' });
  return reply.send({ user: request.session.user });
});
const url = await app.listen({ host: '127.0.0.1', port: 0 });

const access = [];
for (let id = 0; id < Number(PEER_SESSIONS); id++) {
  const { cookies } = await app.inject({ method: 'POST', url: '/login', payload: { id } });
  access.push(`${cookies[0].name}=${encodeURIComponent(cookies[0].value)}`);
}
console.log(JSON.stringify({ url, access, refresh: [] }));
