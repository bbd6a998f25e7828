import { test, type Test } from 'tap';
import { anAccount, bearer, claimsOf } from '../support/client.ts';
import {
  aSite,
  FORGED,
  isIdentity,
  OF_THE_APPLICATION,
  OF_THE_PROXY,
  OF_VERIFY,
  outage,
  PROXIES,
  status,
} from '../support/forward-auth.ts';
import { signUpOver } from '../support/over-http.ts';

test('for pages of another origin, preflights pass and nothing else does', async (t) => {
  const { service, seen, site } = await aSite(t);
  const { user, access_token: token } = await signUpOver(service.url, anAccount());
  const identity = [String(user.id), user.username, String(claimsOf(token).sid), 'access', '', ''];
  const preflight = ['Origin: https://app.example', 'Access-Control-Request-Method: POST'];
  const asked = [...preflight, 'Access-Control-Request-Headers: authorization,content-type'];
  /** What the proxies set themselves, besides. */
  const expected = ['content-length', 'x-forwarded-for', ...OF_VERIFY, ...OF_THE_PROXY, 'transfer-encoding'];
  const withPages: (text: string) => string = (text) => text.replaceAll('#cors ', '');
  const urls: [name: string, url: string][] = [];

  for (const proxy of PROXIES)
    await t.test(proxy.name, { skip: proxy.skip }, async (t) => {
      const plain = await proxy.start(t, site);
      const { url } = await proxy.start(t.parent as Test, site, withPages);
      urls.push([proxy.name, url]);
      seen.length = 0;
      t.equal(await status(plain.url, 'OPTIONS /orders', asked), '401', 'unless the lines are there');
      t.equal(seen.length, 0);

      for (const [how, lines] of Object.entries({
        not: [],
        'with a token': [`Authorization: Bearer ${token}`],
        'as another method': ['X-HTTP-Method-Override: DELETE', 'X-Method-Override: DELETE'],
        'with all that an application takes': OF_THE_APPLICATION.filter(
          (line) => !/^(Origin|Access|Content-Length)/.test(line),
        ),
        ...FORGED,
      })) {
        seen.length = 0;
        const title = `a preflight, changed: ${how}`;
        t.equal(await status(url, 'OPTIONS /orders?page=2', [...asked, ...lines], 'ok'), '201', title);
        t.match(seen, [{ method: 'OPTIONS', url: '/orders?page=2' }], title);
        const { origin, ...headers } = seen[0]?.headers ?? {};
        const {
          'access-control-request-method': method,
          'access-control-request-headers': names,
          ...others
        } = headers;
        t.strictSame(
          [origin, method, names],
          ['https://app.example', 'POST', 'authorization,content-type'],
          title,
        );
        t.strictSame(
          Object.keys(others).filter((name) => !expected.includes(name)),
          [],
          title,
        );
        t.equal(others.authorization, undefined, title);
        isIdentity(t, seen[0], [], title);
      }

      for (const [framing, body] of [
        ['Content-Length: 1', '1'],
        ['Content-Length: 20000', 'x'.repeat(20_000)],
        ['Transfer-Encoding: chunked', '1\r\n1\r\n0\r\n\r\n'],
      ] as const) {
        seen.length = 0;
        const answer = await status(url, 'OPTIONS /orders', [...asked, framing], body);
        t.match(answer, /^(201|400)$/, framing);
        t.strictSame(
          seen.map((request) => request.body),
          answer === '201' ? [''] : [],
          'without the body, or not at all',
        );
      }

      seen.length = 0;
      for (const [line, headers] of [
        ...['GET', 'HEAD', 'POST', 'DELETE', 'TRACE', 'options'].map(
          (name) => [`${name} /orders`, asked] as const,
        ),
        ['POST /orders', [...asked, 'X-HTTP-Method-Override: OPTIONS']],
        ['OPTIONS /orders', asked.filter((header) => !header.startsWith('Origin'))],
        ['OPTIONS /orders', asked.filter((header) => !header.includes('Request-Method'))],
        ['OPTIONS /orders', ['Origin:', 'Access-Control-Request-Method: POST']],
        ['OPTIONS /orders', ['Origin: https://app.example', 'Access-Control-Request-Method:']],
        ['OPTIONS /orders', []],
      ] as const)
        t.match(await status(url, line, [...headers]), /^40[015]$/, `${line} ${headers.join(', ')}`);
      t.strictSame(seen, [], 'nothing that is almost a preflight passes');
      await status(url, 'OPTIONS /api/auth', asked);
      t.strictSame(seen, [], 'Latchkey answers those for its own API');

      for (const method of ['POST', 'OPTIONS']) {
        seen.length = 0;
        const response = await fetch(`${url}/orders`, { method, headers: bearer(token) });
        t.equal(response.status, 201);
        t.equal(response.headers.get('access-control-allow-origin'), null, 'the application’s own');
        isIdentity(t, seen[0], identity, method);
      }
      const refused = await fetch(`${url}/orders`, { headers: bearer('x.y.z') });
      t.equal(refused.status, 401);
      t.equal(refused.headers.get('access-control-allow-origin'), '*');
      t.match(refused.headers.get('access-control-expose-headers'), 'WWW-Authenticate');
    });

  await t.test('a page can read an outage too', async (t) => {
    await service.stop();
    for (const [name, url] of urls) {
      await outage(t, name, url, token);
      const { headers } = await fetch(`${url}/orders`, { headers: bearer(token) });
      t.equal(headers.get('access-control-allow-origin'), '*', name);
      t.match(headers.get('access-control-expose-headers'), 'Retry-After', name);
    }
  });
});
