import { test, type Test } from 'tap';
import { bearer } from '../support/client.ts';
import { exchange } from '../support/raw.ts';
import { basic } from '../support/registered-service.ts';
import { until } from '../support/until.ts';
import '../support/watch-leaks.ts';
import { attackedOperations, bodyOf, headersOf } from './operations.ts';
import { aTarget, type Target, credentialsFor } from './target.ts';

/** A marker in every text sent; the log must not contain it. A request id cannot contain it. */
const MARK = 'forged_entry';

/** Characters that end a line, start another, move a terminal's cursor or trigger a logger's lookup. */
const HOSTILE = [
  `\n{"level":"info","time":"2026-01-01T00:00:00.000Z","msg":"${MARK}"}\n`,
  `\r\n{"msg":"${MARK}"}\r\n`,
  `","msg":"${MARK}","x":"`,
  `"}\n{"msg":"${MARK}`,
  `${MARK}\u001b[2J\u001b[1;31m`,
  `${MARK}\u001b]0;title\u0007\u001b]8;;http://evil.example\u0007`,
  `${MARK}\u009b2J`,
  `${MARK}\b\b\b\b`,
  `${MARK}\u007f\u0000\u0085`,
  `${MARK}\u2028\u2029`,
  `${MARK}\u202e`,
  `\${jndi:ldap://${MARK}.example/x}`,
  `%s %o %j %d ${MARK}`,
  `${MARK}\\u000a\\n`,
];

/** Every line is one JSON object of ours and contains nothing of the input. */
function assertLog(t: Test, log: string, requests: number): void {
  const lines = log.split('\n');
  t.equal(lines.pop(), '', 'the last line is complete');
  const entries = lines.map((line) => {
    try {
      return JSON.parse(line) as Record<string, unknown>;
    } catch {
      t.fail(`not JSON: ${line.slice(0, 200)}`);
      return {};
    }
  });
  t.ok(entries.every((entry) => typeof entry === 'object' && 'level' in entry && 'msg' in entry));
  t.notMatch(log.replaceAll('\n', ''), /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u, 'no control characters');
  t.notOk(log.includes(MARK), 'nothing of the input is logged');
  t.equal(entries.filter(({ msg }) => msg === 'request').length, requests, 'one line per request');
}

/** Runs an attack, which returns its number of requests; then checks the log. */
async function attack(t: Test, run: (target: Target) => Promise<number>): Promise<void> {
  const target = await aTarget(t, { LOG_REQUESTS: 'all' });
  const lines = () => target.log().split('"msg":"request"').length - 1;
  const before = target.log().length;
  const linesBefore = lines();
  const requests = await run(target);
  t.ok(requests > 10, 'the attack took place');
  await until(() => lines() - linesBefore >= requests);
  assertLog(t, target.log().slice(before), requests);
}

test('no field of a body reaches the log', (t) =>
  attack(t, async (target) => {
    let count = 0;
    for (const operation of attackedOperations().filter(({ contentType }) => contentType !== null)) {
      const { authorization } = credentialsFor(target, operation);
      for (const name of [...Object.keys(operation.body ?? {}), MARK]) {
        for (const text of HOSTILE) {
          const response = await fetch(target.url + operation.path, {
            method: operation.method,
            headers: { ...headersOf(operation), authorization },
            body: bodyOf(operation, { ...operation.body, [name]: text }) ?? null,
          });
          await response.arrayBuffer();
          count++;
        }
      }
    }
    return count;
  }));

test('no malformed body reaches the log', (t) =>
  attack(t, async ({ url }) => {
    let count = 0;
    for (const text of HOSTILE) {
      for (const type of [
        'application/json',
        'application/x-www-form-urlencoded',
        `text/plain; x="${MARK}"`,
      ]) {
        for (const path of ['/api/auth', '/api/auth/signup']) {
          const response = await fetch(url + path, {
            method: 'POST',
            headers: { 'content-type': type },
            body: text,
          });
          await response.arrayBuffer();
          count++;
        }
      }
    }
    return count;
  }));

test('no path, query or method reaches the log', (t) =>
  attack(t, async (target) => {
    let count = 0;
    for (const text of HOSTILE) {
      const part = encodeURIComponent(text);
      for (const path of [
        `/${part}`,
        `/api/auth/${part}`,
        `/api/auth/llt/${part}`,
        `/api/auth?id=${part}`,
        `/api/user?${part}=1`,
      ]) {
        for (const method of ['GET', 'DELETE']) {
          const headers = bearer(target.pair.access_token);
          const response = await fetch(`${target.url}${path}`, { method, headers });
          await response.arrayBuffer();
          count++;
        }
      }
    }
    return count;
  }));

test('no header reaches the log', (t) =>
  attack(t, async (target) => {
    let count = 0;
    const names = [
      'X-Request-Id',
      'traceparent',
      'tracestate',
      'baggage',
      'User-Agent',
      'Referer',
      'Host',
      'Cookie',
    ];
    names.push(
      'X-Forwarded-For',
      'Forwarded',
      'Authorization',
      'Accept',
      'Content-Type',
      'Last-Event-ID',
      MARK,
    );
    for (const name of names) {
      for (const text of HOSTILE) {
        // Bytes that a header may contain; Node refuses the others before a request exists.
        const value = Buffer.from(text.replace(/\p{Cc}/gu, '\t')).toString('latin1');
        const head = `GET /api/auth/verify HTTP/1.1\r\nConnection: close\r\n${name === 'Host' ? '' : 'Host: x\r\n'}`;
        await exchange(target.url, Buffer.from(`${head}${name}: ${value}\r\n\r\n`, 'latin1'));
        count++;
      }
    }
    return count;
  }));

test('bytes that are not HTTP do not reach the log', (t) =>
  attack(t, async ({ url }) => {
    for (const text of HOSTILE) {
      await exchange(url, `${text.trim()} / HTTP/1.1\r\nHost: x\r\n\r\n`);
      await exchange(url, `GET / HTTP/1.1\r\nHost: x\r\n${MARK}${text.trim()}\r\n\r\n`);
    }
    return 2 * HOSTILE.length;
  }));

test('credentials of a service do not reach the log', (t) =>
  attack(t, async ({ url, client }) => {
    // The directory looks unknown clients up at most once a second, so all requests go out at once.
    const attempts = HOSTILE.flatMap((text) => [text, encodeURIComponent(text)]).flatMap((text) => [
      { serviceId: text, secret: text },
      { serviceId: client.serviceId, secret: text },
    ]);
    const statuses = await Promise.all(
      attempts.map(async (credentials) => {
        const response = await fetch(`${url}/api/auth/introspect`, {
          method: 'POST',
          headers: basic(credentials),
          body: new URLSearchParams({ token: credentials.secret }),
        });
        return response.status;
      }),
    );
    t.ok(statuses.every((status) => status === 401));
    return attempts.length;
  }));
