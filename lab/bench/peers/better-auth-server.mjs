// What both servers of better-auth share, as its documentation sets it up: `pg`'s pool as the database, and its own Redis
// storage for sessions.
import { createServer } from 'node:http';
import { redisStorage } from '@better-auth/redis-storage';
import { betterAuth } from 'better-auth';
import { getMigrations } from 'better-auth/db/migration';
import { toNodeHandler } from 'better-auth/node';
import { Redis } from 'ioredis';
import pg from 'pg';

const { PEER_DATABASE_URL, PEER_PREFIX, PEER_REDIS_URL, PEER_SECRET, PEER_SESSIONS } = process.env;

/** Serves with a new user for each session. @returns where, and the answers to their signups. */
export async function serve(options) {
  const server = createServer((request, response) => handle(request, response));
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${server.address().port}`;

  const auth = betterAuth({
    baseURL: url,
    secret: PEER_SECRET,
    database: new pg.Pool({ connectionString: PEER_DATABASE_URL }),
    secondaryStorage: redisStorage({ client: new Redis(PEER_REDIS_URL), keyPrefix: PEER_PREFIX }),
    emailAndPassword: { enabled: true },
    // On by default in production. It would refuse the load.
    rateLimit: { enabled: false },
    telemetry: { enabled: false },
    logger: { level: 'error' },
    ...options,
  });
  const handle = toNodeHandler(auth);

  const { runMigrations } = await getMigrations(auth.options);
  await runMigrations();
  const signups = [];
  for (let i = 0; i < Number(PEER_SESSIONS); i++) {
    const body = { name: `User ${i}`, email: `user${i}@example.com`, password: 'difference engine' };
    signups.push(await auth.api.signUpEmail({ body, asResponse: true }));
  }
  return { auth, url, signups };
}
