// suite: e2e
import { test } from 'tap';
import { DOCUMENTS } from '../support/documents.ts';
import { logLines } from '../support/log-lines.ts';
import { aNewcomer } from '../support/newcomer.ts';
import { toolsMissing } from '../support/tools.ts';
import { until } from '../support/until.ts';

/** The operations in the order of the README's session. */
const ROUTES = [
  'POST /api/auth/signup',
  'POST /api/auth',
  'GET /api/auth/refresh',
  'GET /api/user',
  'GET /api/auth/verify',
  'POST /api/auth/llt',
  'DELETE /api/auth/llt/:id',
  'DELETE /api/auth',
];

test(
  'every shell block of the README and the documents runs, in order',
  { skip: toolsMissing('bash', 'curl', 'git', 'npm', 'openssl', 'tar') },
  async (t) => {
    const newcomer = await aNewcomer(t);
    const printed = new Map<string, string>();
    // These need more than a shell: installing.test.ts brings stores with TLS, tutorial.test.ts a browser.
    const apart = ['docs/installing.md', 'docs/tutorial.md'];
    for (const path of DOCUMENTS.filter((each) => !apart.includes(each))) {
      for (const [section, output] of await newcomer.follow(path)) printed.set(`${path} ${section}`, output);
      if (path !== 'README.md') continue;
      const good = () =>
        logLines(newcomer.log())
          .filter(({ msg, status }) => msg === 'request' && status === 200)
          .map(({ method, route }) => `${String(method)} ${String(route)}`);
      await until(() => good().length >= ROUTES.length);
      t.strictSame(good(), ROUTES, 'the session uses all operations');
    }

    const session = printed.get('README.md A curl session') ?? '';
    t.match(answersIn(session), [
      { access_token: String, refresh_token: String, user: { id: Number, username: /^ada-/, name: 'Ada' } },
      { id: Number, tokens: [{ type: 'refresh' }, { type: 'refresh', current: true }] },
      { id: Number, longlived_token: String },
      { msg: String },
      { msg: String },
    ]);
    t.equal(answersIn(session).length, 5);
    t.match(session, /^x-auth-token-type: access\r?$/im);

    const orders = printed.get('docs/integrating/node.md Step by step') ?? '';
    t.match(orders, /\{"orders":\[\],"of":\d+\}/, 'the Express app accepts a good token');
    t.match(orders, /^401$/m, 'the Express app refuses it after the logout');
    const ofServices = printed.get('docs/services.md Service tokens') ?? '';
    t.match(ofServices, /^HTTP\/1\.1 200 [^]*^x-auth-token-type: service[^]*^HTTP\/1\.1 401 /m);
    const asked = printed.get('docs/integrating/any-language.md The agent') ?? '';
    t.match(
      asked,
      /^HTTP\/1\.1 200 OK[^]*^x-auth-user: \d+[^]*^HTTP\/1\.1 401 /m,
      'the agent refuses it too',
    );
    t.match(answersIn(printed.get('docs/integrating/any-language.md Introspection') ?? ''), [
      { active: true, token_use: 'access', username: /^cyd-/ },
      { active: false },
    ]);
    t.match(answersIn(printed.get('docs/development.md Seed') ?? ''), [{ active: true, username: 'grace' }]);
    t.match(printed.get('docs/integrating/feed.md Read it'), /^event: snapshot$/m);
    t.match(printed.get('docs/keys.md Change the signing key'), /published|unseen/);
    t.match(printed.get('docs/operating.md Doctor'), /^ok/m);
    t.match(printed.get('docs/operating.md Regular work'), /^purged \d+ records$/m);
    t.match(printed.get('docs/observability.md Logs'), 'debug');
  },
);

function answersIn(output: string): object[] {
  return output
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as object);
}
