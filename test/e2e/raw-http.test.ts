import { test, type Test } from 'tap';
import type { ErrorCode } from '../../src/domain/errors.ts';
import { anAccount } from '../support/client.ts';
import { logLines } from '../support/log-lines.ts';
import { assertProblem } from '../support/problem.ts';
import { answersIn, exchange } from '../support/raw.ts';
import { readyService, type Service } from '../support/service.ts';
import { until } from '../support/until.ts';
import '../support/watch-leaks.ts';

/** What `inject` and `fetch` hide: malformed HTTP, and the bytes of answers. */
test('over a raw socket', async (t) => {
  const service = await readyService(t, { REQUEST_TIMEOUT: '1', LOG_LEVEL: 'debug' });
  const { url } = service;

  const refusals: [title: string, bytes: string, status: number, code: ErrorCode][] = [
    ['no HTTP at all', 'hello\r\n\r\n', 400, 'bad_request'],
    ['TLS on the plain port', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 400, 'bad_request'],
    ['an unknown method', 'FETCH / HTTP/1.1\r\nHost: x\r\n\r\n', 400, 'bad_request'],
    ['an unknown version', 'GET / HTTP/9.9\r\nHost: x\r\n\r\n', 400, 'bad_request'],
    ['a header without a colon', 'GET / HTTP/1.1\r\nHost: x\r\nbad header\r\n\r\n', 400, 'bad_request'],
    ['a bare NUL in a header', 'GET / HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n', 400, 'bad_request'],
    ['a folded header', 'GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\nX\r\n\r\n', 400, 'bad_request'],
    ['a bad Content-Length', post('Content-Length: abc'), 400, 'bad_request'],
    ['a negative Content-Length', post('Content-Length: -1'), 400, 'bad_request'],
    ['two Content-Lengths', post('Content-Length: 1\r\nContent-Length: 2'), 400, 'bad_request'],
    [
      'Content-Length beside chunks',
      post('Content-Length: 5\r\nTransfer-Encoding: chunked'),
      400,
      'bad_request',
    ],
    ['an unknown Transfer-Encoding', post('Transfer-Encoding: tricky'), 400, 'bad_request'],
    ...['tricky', 'identity', 'chunked, identity', 'chunkedx', 'x chunked'].map(
      (coding): [string, string, number, ErrorCode] => [
        `the Transfer-Encoding ${coding} on a public route`,
        get(`Transfer-Encoding: ${coding}`, '/.well-known/jwks.json'),
        400,
        'bad_request',
      ],
    ),
    ['a bad chunk', `${post('Transfer-Encoding: chunked')}zz\r\n`, 400, 'bad_request'],
    ['one header over the limit', get(`X-Long: ${'x'.repeat(17_000)}`), 431, 'headers_too_large'],
    ['many headers over the limit', get('X-Some: thing\r\n'.repeat(2000).trim()), 431, 'headers_too_large'],
    [
      'a URL over the limit',
      `GET /${'x'.repeat(17_000)} HTTP/1.1\r\nHost: x\r\n\r\n`,
      431,
      'headers_too_large',
    ],
    ['headers that never end', 'GET / HTTP/1.1\r\nHost: x\r\n', 408, 'request_timeout'],
    ['a body that never ends', `${post('Content-Length: 5')}{`, 408, 'request_timeout'],
    ['an unknown Expect', get('Expect: a-miracle'), 417, 'expectation_failed'],
  ];
  for (const [title, bytes, status, code] of refusals) {
    await t.test(`${title} is ${status} ${code}, and the connection is closed`, async (t) => {
      const [answer, ...others] = answersIn(await exchange(url, bytes));
      if (!answer) throw new Error('no answer');
      assertProblem(t, answer, status, code);
      t.equal(answer.header('connection'), 'close');
      t.strictSame(others, []);
      await until(() => lineOf(service, answer.header('x-request-id')) !== undefined);
    });
  }

  await t.test('HTTP/1.1 without Host is refused', async (t) => {
    await only(t, url, 'GET /api/auth/verify HTTP/1.1\r\nConnection: close\r\n\r\n', 400, 'bad_request');
  });

  await t.test('HTTP/1.0 is served and closed', async (t) => {
    const answer = await only(t, url, 'GET /api/user HTTP/1.0\r\n\r\n', 401, 'token_missing');
    t.equal(answer.header('connection'), 'close');
  });

  await t.test('a URL that cannot be decoded gets 400, and the answer does not quote it', async (t) => {
    for (const path of ['/%', '/api/auth/%zz', '/api/auth/llt/%ff', '/api/%c3%28']) {
      const answer = await only(t, url, get('Connection: close', path), 400, 'bad_request');
      t.notOk(answer.body.includes(path));
    }
  });

  await t.test(
    'an absolute URL is routed by its path, and a path with bytes beyond ASCII matches no route',
    async (t) => {
      await only(t, url, get('Connection: close', 'http://elsewhere/api/user'), 401, 'token_missing');
      await only(t, url, get('', '/api/user?\xff\xfe'), 400, 'bad_request');
      await only(t, url, get('Connection: close', '/api/user?%ff=%00'), 401, 'token_missing');
    },
  );

  await t.test(
    'a body over the limit gets 413 before it has arrived, and the connection closes',
    async (t) => {
      const answer = await only(t, url, post('Content-Length: 1000000'), 413, 'body_too_large');
      t.equal(answer.header('connection'), 'close');
    },
  );

  await t.test('chunks over the limit get 413', async (t) => {
    const chunk = `4000\r\n${' '.repeat(0x4000)}\r\n`;
    const bytes = `${post('Transfer-Encoding: chunked\r\nConnection: close')}${chunk}${chunk}0\r\n\r\n`;
    await only(t, url, bytes, 413, 'body_too_large');
  });

  await t.test('pipelined requests are answered in order', async (t) => {
    const account = JSON.stringify(anAccount());
    const signUp = `${post(`Content-Length: ${account.length}`, '/api/auth/signup')}${account}`;
    const bytes = [get('', '/nowhere'), signUp, get('', '/api/user'), get('Connection: close', '/api/auth')];
    const answers = answersIn(await exchange(url, bytes.join('')));
    t.strictSame(
      answers.map(({ status }) => status),
      [404, 200, 401, 405],
    );
  });

  await t.test('after pipelined good requests, garbage is refused', async (t) => {
    const answers = answersIn(await exchange(url, `${get('', '/nowhere')}rubbish\r\n\r\n`));
    t.strictSame(
      answers.map(({ status }) => status),
      [404, 400],
    );
  });

  await t.test('Expect: 100-continue is honoured', async (t) => {
    const received = await exchange(
      url,
      `${post('Content-Length: 2\r\nExpect: 100-continue\r\nConnection: close')}{}`,
    );
    t.match(received, /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 400 /);
  });

  await t.test('an answer below the router repeats the request id too', async (t) => {
    const bytes = get('Expect: a-miracle\r\nX-Request-Id: mine-1');
    const answer = await only(t, url, bytes, 417, 'expectation_failed');
    t.equal(answer.header('x-request-id'), 'mine-1');
  });

  await t.test('a refresh does not wait for a body', async (t) => {
    const bytes = get('Content-Length: 1000\r\nContent-Type: application/json', '/api/auth/refresh');
    const [answer] = answersIn(await exchange(url, bytes));
    if (answer) assertProblem(t, answer, 401, 'token_missing');
    else t.fail('no answer');
  });

  await t.test('a suffix of the verify path leads to no other route', async (t) => {
    // A GET of /api/auth/llt or /api/auth/signup would return 405.
    for (const path of [
      '../llt',
      '%2e%2e/llt',
      '..%2fllt',
      './../../../auth/llt',
      '/../../signup',
      'http://x/',
    ])
      await only(t, url, get('Connection: close', `/api/auth/verify/${path}`), 401, 'token_missing');
  });

  await t.test('verify does not wait for a body, for any announcement of one', async (t) => {
    for (const announced of [
      'Content-Length: 100000000\r\nContent-Type: application/json',
      'Content-Length: 5',
      'Content-Type: multipart/form-data',
      'Transfer-Encoding: chunked\r\nContent-Type: application/grpc',
      'Content-Length: 0\r\nContent-Type: text/plain',
    ]) {
      for (const path of ['/api/auth/verify', '/api/auth/verify/upload?x=1']) {
        const head = `POST ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${announced}\r\n\r\n`;
        await only(t, url, head, 401, 'token_missing');
      }
    }
  });

  t.equal(await service.stop(), 0, 'the service survives all of this');
});

function get(headers: string, path = '/'): string {
  return `GET ${path} HTTP/1.1\r\nHost: x\r\n${headers === '' ? '' : `${headers}\r\n`}\r\n`;
}

function post(headers: string, path = '/api/auth'): string {
  return `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${headers}\r\n\r\n`;
}

async function only(t: Test, url: string, bytes: string, status: number, code: ErrorCode) {
  const [answer, ...others] = answersIn(await exchange(url, bytes));
  if (!answer) throw new Error('no answer');
  assertProblem(t, answer, status, code);
  t.strictSame(others, [], 'one answer');
  return answer;
}

function lineOf(service: Service, requestId: string | undefined) {
  return logLines(service.log()).find(({ reqId, msg }) => reqId === requestId && msg === 'request');
}
