import { test } from 'tap';
import { exchangeForm } from '../support/audiences.ts';
import { anAccount, bearer, claimsOf } from '../support/client.ts';
import { aSite, CADDY, FORGED, isIdentity, PROXIES, status } from '../support/forward-auth.ts';
import { withAudience } from '../support/identity-headers.ts';
import { logOutOver, refreshOver, signUpOver, verifyOver } from '../support/over-http.ts';
import { testDatabase } from '../support/postgres.ts';
import { aRegisteredService, basic } from '../support/registered-service.ts';

test('forward-auth for one audience', async (t) => {
  const DATABASE_URL = (await testDatabase(t)).url;
  await aRegisteredService(DATABASE_URL, 'orders', [], 'orders');
  const gateway = await aRegisteredService(DATABASE_URL, 'gateway', ['exchange', 'call:orders']);
  const { service, seen, site } = await aSite(t, { DATABASE_URL, TRUST_PROXY: 'loopback' });
  const { user, access_token: subject } = await signUpOver(service.url, anAccount());
  const issued = async (form: Record<string, string>, headers: Record<string, string>) => {
    const body = new URLSearchParams(form);
    const response = await fetch(`${service.url}/api/auth/token`, { method: 'POST', headers, body });
    return ((await response.json()) as { access_token: string }).access_token;
  };
  const exchanged = (subject: string, headers: Record<string, string>) =>
    issued(exchangeForm(subject, 'orders'), headers);
  const token = await exchanged(subject, bearer(subject));
  const ofGateway = await issued({ grant_type: 'client_credentials', audience: 'orders' }, basic(gateway));
  const identity = [String(user.id), user.username, String(claimsOf(subject).sid), 'access', '', ''];
  // A client may try to choose the audience itself.
  const targets = ['/', '/items/7?page=2', '/items?audience=orders', '/?audience=latchkey', '/?audience='];

  for (const proxy of PROXIES)
    await t.test(proxy.name, { skip: proxy.skip }, async (t) => {
      const ofAudience = await proxy.start(t, site, withAudience);
      const plain = await proxy.start(t, site);
      for (const target of targets)
        for (const [how, lines] of Object.entries(target === '/' ? { not: [], ...FORGED } : { not: [] }))
          for (const [{ url }, good, bad] of [
            [ofAudience, token, subject],
            [plain, subject, token],
          ] as const) {
            seen.length = 0;
            const title = `${target}, forged ${how}`;
            const line = `GET ${target}`;
            t.equal(await status(url, line, [`Authorization: Bearer ${bad}`, ...lines]), '401', title);
            t.equal(await status(url, line, lines), '401', title);
            t.equal(seen.length, 0);
            t.equal(await status(url, line, [`Authorization: Bearer ${good}`, ...lines]), '201', title);
            isIdentity(t, seen[0], identity, title);
          }

      for (const [how, lines] of Object.entries({ not: [], ...FORGED })) {
        seen.length = 0;
        const title = `a service, forged ${how}`;
        const asGateway = [`Authorization: Bearer ${ofGateway}`, ...lines];
        t.equal(await status(plain.url, 'GET /', asGateway), '401', title);
        t.equal(seen.length, 0);
        t.equal(await status(ofAudience.url, 'GET /', asGateway), '201', title);
        isIdentity(t, seen[0], ['', '', '', 'service', '', gateway.serviceId], title);
      }

      const opened = await signUpOver(service.url);
      const ofService = await exchanged(opened.access_token, basic(gateway));
      const asked = () => status(ofAudience.url, 'GET /', [`Authorization: Bearer ${ofService}`]);
      seen.length = 0;
      t.equal(await asked(), '201', 'a service asked for the token');
      t.match(seen[0]?.headers, {
        'x-auth-user': String(opened.user.id),
        'x-auth-client': gateway.serviceId,
      });
      const refreshed = await refreshOver(service.url, opened.refresh_token);
      t.equal(refreshed.status, 200);
      const { access_token: newer } = (await refreshed.json()) as { access_token: string };
      t.equal(await verifyOver(service.url, newer), 200);
      t.equal(await asked(), '201', 'a refresh does not end it');
      t.equal(await logOutOver(service.url, newer), 200);
      t.equal(await asked(), '401', 'the end of the session does');
    });

  await t.test(
    'Caddy’s file without the ? after verify lets no client choose the audience',
    { skip: CADDY.skip },
    async (t) => {
      const without = (text: string) => {
        const changed = text.replace(
          'rewrite * /api/auth{path}verify?\n',
          'rewrite * /api/auth{path}verify\n',
        );
        if (changed === text) throw new Error('there is no ? after verify');
        return changed;
      };
      const { url } = await CADDY.start(t, site, without);
      for (const query of [
        '?audience=orders',
        '?page=2&audience=orders',
        '?audience=orders&',
        '?%61udience=orders',
        '?audience=orders&x;y',
        '?audience=orders&%zz',
        '?audience=orders?',
      ])
        t.equal(await status(url, `GET /items${query}`, [`Authorization: Bearer ${token}`]), '401', query);
      t.equal(await status(url, 'GET /items?page=2', [`Authorization: Bearer ${subject}`]), '201');
      t.equal(await status(url, 'GET /items?page=2', [`Authorization: Bearer ${token}`]), '401');
    },
  );
});
