import { test, type Test } from 'tap';
import type { AppOptions } from '../../src/app.ts';
import { buildTestApp } from '../support/app.ts';
import { bearer, call, signUp } from '../support/client.ts';
import { logLines } from '../support/log-lines.ts';
import { answersIn, exchange } from '../support/raw.ts';
import { aRegisteredService, basic } from '../support/registered-service.ts';
import '../support/watch-leaks.ts';
import { attackedOperations, bodyOf, headersOf, inParallel } from './operations.ts';

/** So many lines of a kind are written at once. The log's clock stands still. */
const AT_ONCE = 10;
const TIMES = AT_ONCE + 1;

async function aTarget(t: Test, useCases: Partial<AppOptions['useCases']> = {}) {
  const target = await buildTestApp(t, {
    env: { LOG_REQUESTS: 'all' },
    override: (app) => ({
      ...app,
      clock: { ...app.clock, monotonic: () => 1 },
      useCases: { ...app.useCases, ...useCases },
    }),
  });
  return { ...target, url: await target.app.listen({ port: 0 }) };
}

/** Lines that one caller can write again and again, by what they have in common. */
function countKinds(lines: Record<string, unknown>[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { msg, route, status, code, reason } of lines) {
    const kind = [msg, route, status, code, reason].join(' ');
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  return counts;
}

test('strangers cannot fill the log, whatever they ask for', async (t) => {
  const target = await aTarget(t, { logIn: () => Promise.reject(new Error('planted')) });
  const service = await aRegisteredService(target.databaseUrl);
  const statuses: number[] = [];
  const asked = attackedOperations().flatMap((operation) => {
    const [line, headers, payload] = [
      `${operation.method} ${operation.path}`,
      headersOf(operation),
      bodyOf(operation),
    ];
    return [
      { line, headers, payload },
      { line, headers: { ...headers, authorization: 'Bearer x' }, payload },
      { line, headers: { ...headers, ...basic({ ...service, secret: 'x' }) }, payload: payload && '{' },
    ].flatMap((each) => Array.from({ length: TIMES }, () => each));
  });
  await inParallel(asked, async ({ line, ...options }) => {
    statuses.push((await call(target, line, options)).statusCode);
  });
  const raw = [
    'GET / HTTP/1.1\r\nConnection: close\r\n\r\n',
    '?\r\n\r\n',
    'GET / HTTP/1.1\r\nHost: x\r\nExpect: x\r\n\r\n',
  ];
  for (const text of [...raw, 'GET /%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n']) {
    for (let i = 0; i < TIMES; i++)
      for (const { status } of answersIn(await exchange(target.url, text))) statuses.push(status);
  }
  await target.app.close();

  const lines = logLines(target.log());
  const refusals = lines.filter(({ status }) => status === undefined || Number(status) >= 400);
  const tooMany = [...countKinds(refusals)].filter(([, count]) => count > AT_ONCE);
  t.strictSame(tooMany, []);
  const written = refusals.filter(({ msg, reqId }) => msg === 'request' && reqId !== undefined).length;
  const skipped = lines
    .filter(({ msg, line }) => msg === 'request' || line === 'request')
    .reduce((sum, line) => sum + Number(line.skipped ?? 0), 0);
  t.equal(written + skipped, statuses.filter((status) => status >= 400).length, 'each is counted');
  t.ok(skipped > written);
  t.ok(
    lines.some(({ line }) => line === 'internal error'),
    'so are causes of 500',
  );
});

test('no flood of strangers hides a line about a known caller', async (t) => {
  const target = await aTarget(t);
  const owner = await signUp(target);
  const ended = await signUp(target);
  await call(target, 'DELETE /api/auth', { token: ended.access_token });
  const service = await aRegisteredService(target.databaseUrl, 'billing', []);
  const form = { 'content-type': 'application/x-www-form-urlencoded' };
  const known: [what: string, line: string, headers: Record<string, string>][] = [
    ['a user', 'DELETE /api/auth/7', bearer(owner.access_token)],
    ['an ended session', 'GET /api/auth/verify', bearer(ended.access_token)],
    ['a service without the right', 'GET /api/users/7', basic(service)],
    ['a service', 'POST /api/auth/introspect', { ...basic(service), ...form }],
  ];
  for (const [what, line, headers] of known) {
    const ids: string[] = [];
    for (let i = 0; i < TIMES; i++) {
      const { statusCode, headers: answered } = await call(target, line, { headers });
      t.ok(statusCode >= 400, `${what} is refused: ${statusCode}`);
      ids.push(String(answered['x-request-id']));
    }
    const written = logLines(target.log()).map(({ reqId }) => reqId);
    t.strictSame(
      ids.filter((id) => !written.includes(id)),
      [],
      what,
    );
  }
});
