import { test } from 'tap';
import { buildTestApp } from '../../support/app.ts';
import { call } from '../../support/client.ts';
import { refused } from '../../support/problem.ts';

const PAGE = ['/docs', '/docs/', '/docs/static/swagger-ui-bundle.js', '/docs/static/swagger-initializer.js'];

test('the page and its files have a policy that allows no other source', async (t) => {
  const target = await buildTestApp(t);
  for (const path of [...PAGE, '/docs/static/swagger-ui.css', '/docs/json', '/docs/yaml']) {
    const { statusCode, headers } = await call(target, `GET ${path}`);
    t.equal(statusCode, 200, path);
    const policy = String(headers['content-security-policy']);
    t.match(policy, /^default-src 'none'; script-src 'self'; style-src 'self'; /);
    t.match(policy, /; frame-ancestors 'none'$/);
    t.notMatch(policy, /unsafe|https?:|\*/);
    t.match(headers, { 'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer' });
  }
});

test('the rest of the service has no such policy', async (t) => {
  const target = await buildTestApp(t);
  for (const path of ['/api/user', '/nowhere']) {
    t.equal((await call(target, `GET ${path}`)).headers['content-security-policy'], undefined);
  }
});

test('the page refers to no other host', async (t) => {
  const target = await buildTestApp(t);
  const { body } = await call(target, 'GET /docs');
  const names = [...body.matchAll(/(?:src|href)="([^"]*)"/g)].map(([, name = '']) => name);
  t.ok(names.length >= 5);
  t.match(body, /<noscript>[^<]*<a href="\/docs\/json">/, 'also without scripts');
  for (const name of names) {
    t.match(name, /^\/docs\/(static\/|json$)/);
    t.equal((await call(target, `GET ${name}`)).statusCode, 200, name);
  }
});

test('the 404 of / leads to the reference, only where it is served', async (t) => {
  for (const [DOCS_ENABLED, detail, link] of [
    ['true', /at \/docs\.$/, '</docs>; rel="service-doc"'],
    ['false', /at this path\.$/, undefined],
  ] as const) {
    const response = await call(await buildTestApp(t, { env: { DOCS_ENABLED } }), 'GET /');
    refused(t, response, 404, 'not_found');
    t.match(response.json(), { detail });
    t.equal(response.headers.link, link);
  }
});

test('no other file is served there', async (t) => {
  const target = await buildTestApp(t);
  const outside = ['nothing.js', '..%2fpackage.json', '%2e%2e%2fpackage.json', '..%5cpackage.json', '.%00'];
  for (const path of outside) {
    const response = await call(target, `GET /docs/static/${path}`);
    t.ok([400, 403, 404].includes(response.statusCode), `${path}: ${response.statusCode} ${response.body}`);
    t.match(response.headers['content-type'], 'application/problem+json');
  }
  refused(t, await call(target, 'GET /docs/static/nothing.js'), 404, 'not_found');
  refused(t, await call(target, 'POST /docs/json'), 405, 'method_not_allowed');
});
