import { test } from 'tap';
import { anAccount, bearer } from '../support/client.ts';
import { aSite, CADDY, PROXIES, SEED, status, statusOfEach } from '../support/forward-auth.ts';
import { signUpOver } from '../support/over-http.ts';
import { spellings } from '../support/path-spellings.ts';

test('a proxy can demand more of the login, and no client can lower that', async (t) => {
  const { service, seen, site } = await aSite(t);
  const { access_token: token } = await signUpOver(service.url, anAccount());
  const authorization = `Authorization: Bearer ${token}`;
  const demanding: Record<string, (text: string) => string> = {
    nginx: (text) => text.replaceAll('#mfa ', ''),
    Caddy: (text) =>
      text.replace('verify?\n\t\treverse', 'verify?demand_acr=mfa&demand_max_age=300\n\t\treverse'),
  };
  const queries = ['', '?demand_acr=', '?demand_acr=mfa&demand_max_age=99999', '?x=1&demand_max_age=99999'];

  for (const proxy of PROXIES)
    await t.test(proxy.name, { skip: proxy.skip }, async (t) => {
      const { url } = await proxy.start(t, site, demanding[proxy.name]);
      const plain = await proxy.start(t, site);
      for (const query of queries) {
        seen.length = 0;
        const answer = await fetch(`${url}/admin/users${query}`, { headers: bearer(token) });
        t.equal(answer.status, 401, query);
        t.equal(
          answer.headers.get('www-authenticate'),
          'Bearer error="insufficient_user_authentication", acr_values="mfa", max_age="300"',
        );
        t.match(await answer.json(), { status: 401, code: 'insufficient_user_authentication' });
        t.equal(await status(url, `GET /admin/users${query}`), '401');
        t.equal(seen.length, 0);
        t.equal(
          await status(plain.url, `GET /admin/users${query}`, [authorization]),
          '201',
          'not by default',
        );
      }
      if (proxy.name !== 'nginx') return;
      t.equal(await status(url, 'GET /orders?page=2', [authorization]), '201', 'not elsewhere');
      seen.length = 0;
      const paths = [...spellings(SEED, 500, 'admin'), '/ADMIN/x', '/admin', '/%61dmin/', '/x/%2e%2e/admin/'];
      await statusOfEach(url, paths, [authorization]);
      t.strictSame(
        seen.map(({ url: path }) => path),
        [],
        `reached without a second factor; seed ${SEED}`,
      );
    });

  await t.test(
    'Caddy’s file without the ? after verify: a client demands more of itself only',
    { skip: CADDY.skip },
    async (t) => {
      const without = (text: string) =>
        text.replace('scopes}?\n', 'scopes}\n').replace('verify?\n\t\treverse', 'verify\n\t\treverse');
      const { url } = await CADDY.start(t, site, without);
      for (const [query, expected] of [
        ['?demand_acr=mfa', '401'],
        ['?demand_acr=other', '401'],
        ['?demand_max_age=300', '201'],
        ['?page=2', '201'],
      ] as const)
        t.equal(await status(url, `GET /items${query}`, [authorization]), expected, query);
    },
  );
});
