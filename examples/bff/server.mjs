// A backend-for-frontend: the browser holds a cookie, and the tokens stay here. See
// docs/integrating/browsers-and-apps.md. The sessions are in memory: several replicas need a store that they share.
// A page without a backend of its own keeps the tokens itself: see examples/spa.
import { randomBytes } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import fastify from 'fastify';

const {
  LATCHKEY_URL = 'http://localhost:3000',
  ORIGIN = 'https://localhost:5000',
  PORT = '5000',
} = process.env;
const COOKIE = '__Host-session';
const IDLE = 30 * 86_400_000; // REFRESH_TOKEN_TTL of Latchkey
const PATIENCE = 3; // seconds that a request waits for a retry

/** The pair of each session, by the value of its cookie. */
const sessions = new Map();
const app = fastify({ trustProxy: process.env.TRUST_PROXY || false });

// Another site can make the browser send the cookie, but not this header: there is no CORS here.
app.addHook('onRequest', async ({ headers }, reply) => {
  reply.header('cache-control', 'no-store');
  if (headers['x-requested-by'] !== 'page' || (headers.origin ?? ORIGIN) !== ORIGIN)
    return reply.code(403).send({ code: 'cross_site' });
});

app.post('/bff/login', (request, reply) => {
  const { username, password } = request.body ?? {};
  return logIn(request, reply, '/api/auth', { username, password });
});

// What the page sends after 401 `second_factor_required`, with the `login_token` of that answer. Without the
// code it opens nothing, so the page may hold it, as it holds the password that the user types. For a login
// by passkey, the page calls `@latchkey/client/passkey` with a client of its own, whose `request` and
// `completeLogin` send to this backend.
app.post('/bff/second-factor', (request, reply) => {
  const { login_token, code, recovery_code, passkey } = request.body ?? {};
  return logIn(request, reply, '/api/auth/second-factor', { login_token, code, recovery_code, passkey });
});
app.post('/bff/passkey', async (request, reply) =>
  pass(reply, await ask(request, 'POST', '/api/auth/passkey')),
);

async function logIn(request, reply, path, body) {
  // The cookie of an earlier login is overwritten, so its session must end. After a 503 the browser can repeat the login.
  const refusal = await endSession(request);
  if (refusal) return pass(reply, refusal);
  const answer = await ask(request, 'POST', path, { body });
  if (answer.status !== 200) return pass(reply, answer);
  forgetIdle();
  // A new id for each login: one that an attacker has planted is worth nothing.
  const id = randomBytes(32).toString('base64url');
  sessions.set(id, { ...pairOf(answer), usedAt: Date.now() });
  setCookie(reply, id);
  return { user: answer.body.user };
}

// Call your own services like this too, with their URL instead of Latchkey's.
app.get('/bff/user', (request, reply) => forward(request, reply, '/api/user'));

// The list of second factors, and their changes: docs/second-factor.md.
app.get('/bff/factors', (request, reply) => forward(request, reply, '/api/user/factors'));
for (const change of ['totp', 'totp/confirm', 'passkey', 'passkey/confirm', 'recovery-codes'])
  app.post(`/bff/factors/${change}`, (request, reply) =>
    forward(request, reply, `/api/user/factors/${change}`),
  );
app.post('/bff/factors/:id/removal', (request, reply) =>
  forward(request, reply, `/api/user/factors/${encodeURIComponent(request.params.id)}/removal`),
);

/** Asks Latchkey as the user of the cookie, and passes its answer on. */
async function forward(request, reply, path) {
  const { id, session } = sessionOf(request);
  if (!session) return reply.code(401).send({ code: 'signed_out' });
  const answer = await askAsUser(session, request, request.method, path, request.body);
  if (!answer.isSignedOut) return pass(reply, answer);
  sessions.delete(id);
  return signOut(reply, 401);
}

app.post('/bff/logout', async (request, reply) => {
  const refusal = await endSession(request);
  // After a 503 the session stays, so that the browser can repeat the logout.
  return refusal ? pass(reply, refusal) : signOut(reply, 200);
});

/** Ends the session of the cookie at Latchkey, then here. @returns null after a success, else the refusal. */
async function endSession(request) {
  const { id, session } = sessionOf(request);
  if (!session) return null;
  const answer = await askAsUser(session, request, 'DELETE', '/api/auth');
  if (!answer.isSignedOut && answer.status !== 200) return answer;
  sessions.delete(id);
  return null;
}

/** Asks Latchkey, with the user's address, User-Agent and languages. A lost answer is like a 503: nothing is known. */
async function ask(request, method, path, { token, body } = {}) {
  const headers = {
    'x-forwarded-for': request.ip,
    'user-agent': request.headers['user-agent'] ?? '',
    // Latchkey keeps the preferred one at a signup; without a header, fetch sends a `*`, which names none.
    'accept-language': request.headers['accept-language'] ?? '*',
    ...(token && { authorization: `Bearer ${token}` }),
    ...(body && { 'content-type': 'application/json' }),
  };
  const signal = AbortSignal.timeout(5000);
  const options = { method, headers, body: body && JSON.stringify(body), signal, redirect: 'error' };
  try {
    const response = await fetch(LATCHKEY_URL + path, options);
    const answer = await response.json();
    // A proxy or a firewall answered, or took the token away. That says nothing about the session.
    const isLatchkeys = response.ok || answer.type === `urn:latchkey:error:${answer.code}`;
    if (!isLatchkeys || answer.code === 'token_missing') throw new Error('no answer of Latchkey');
    const retryAfter = Number(response.headers.get('retry-after')) || 1;
    return { status: response.status, retryAfter, body: answer };
  } catch {
    return { status: 503, retryAfter: 1, body: { code: 'unavailable' } };
  }
}

/** Asks with the access token, and after a refresh if that has expired. */
async function askAsUser(session, request, method, path, body) {
  const { access } = session;
  const answer = await ask(request, method, path, { token: access, body });
  if (answer.status !== 401 || answer.body.code !== 'invalid_token') return answer;
  // Another request may have refreshed meanwhile.
  const refusal = session.access === access ? await refresh(session, request) : null;
  return refusal ?? ask(request, method, path, { token: session.access, body });
}

/** One refresh at a time: all requests of the session wait for it. */
function refresh(session, request) {
  session.refreshing ??= tryRefresh(session, request).finally(() => (session.refreshing = null));
  return session.refreshing;
}

/** Repeats a refresh that had no answer, with the same token. @returns null after a success, else the refusal. */
async function tryRefresh(session, request) {
  for (let attempt = 1; ; attempt++) {
    const answer = await ask(request, 'GET', '/api/auth/refresh', { token: session.refresh });
    if (answer.status === 200) {
      Object.assign(session, pairOf(answer)); // stored before it is used
      return null;
    }
    // Only these two mean signed out. After any other answer the session stays.
    if ([401, 403].includes(answer.status)) return { ...answer, isSignedOut: true };
    if (attempt === PATIENCE || answer.retryAfter > PATIENCE) return answer;
    await wait(answer.retryAfter * 1000);
  }
}

function pairOf({ body }) {
  return { access: body.access_token, refresh: body.refresh_token };
}

function sessionOf({ headers }) {
  const cookies = (headers.cookie ?? '').split('; ');
  const id = cookies.find((each) => each.startsWith(`${COOKIE}=`))?.slice(COOKIE.length + 1);
  const session = sessions.get(id);
  if (session) session.usedAt = Date.now();
  return { id, session };
}

function signOut(reply, status) {
  setCookie(reply, '', '; Max-Age=0');
  return reply.code(status).send({ code: 'signed_out' });
}

/** `__Host-`: only this host can have set it, over TLS. Scripts cannot read it, and other sites do not send it. */
function setCookie(reply, value, more = '') {
  reply.header('set-cookie', `${COOKIE}=${value}; Path=/; Secure; HttpOnly; SameSite=Strict${more}`);
}

function pass(reply, { status, retryAfter, body }) {
  if (status === 429 || status === 503) reply.header('retry-after', retryAfter);
  return reply.code(status).send(body);
}

function forgetIdle() {
  for (const [id, { usedAt }] of sessions) if (usedAt < Date.now() - IDLE) sessions.delete(id);
}

await app.listen({ port: Number(PORT) });
