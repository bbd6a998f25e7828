import { test, type Test } from 'tap';
import { type Seen } from '../support/application.ts';
import { anAccount } from '../support/client.ts';
import { readDocument } from '../support/documents.ts';
import { aSite, PROXIES, status, waysToForge } from '../support/forward-auth.ts';
import { OVERRIDES } from '../support/identity-headers.ts';
import { createLimitedOver, signUpOver } from '../support/over-http.ts';

const WEBSOCKET = ['Connection: Upgrade', 'Upgrade: websocket'];
const TRAILERS = `2\r\nok\r\n0\r\n${OVERRIDES.map((name) => `${name}: spoofed\r\n`).join('')}\r\n`;

test('the application gets what the proxy has checked', async (t) => {
  const { service, seen, site } = await aSite(t);
  const { access_token: token } = await signUpOver(service.url, anAccount());
  const { token: limited } = await createLimitedOver(service.url, token, ['reports:read']);
  const signedIn = [`Authorization: Bearer ${token}`];
  const reader = [`Authorization: Bearer ${limited}`];
  const edits: Record<string, (text: string) => string> = {
    'as shipped': (text) => text,
    'for pages': (text) => text.replaceAll('#cors ', ''),
  };
  /** Every way to the application. */
  const ways: [line: string, lines: string[], body?: string][] = [
    ['GET /orders', signedIn],
    ['POST /orders', [...signedIn, 'Content-Length: 2'], 'ok'],
    ['POST /trailers', [...signedIn, `Trailer: ${OVERRIDES.join()}`, 'Transfer-Encoding: chunked'], TRAILERS],
    ['GET /broken', signedIn],
    ['GET /api/users', signedIn],
    ['GET /public/..;/orders', signedIn],
    ['GET /public/x', []],
    ['GET /reports/x', reader],
    ['GET /socket', [...signedIn, ...WEBSOCKET]],
    ['GET /public/socket', WEBSOCKET],
    ['OPTIONS /orders', [...signedIn, 'Origin: https://a.example', 'Access-Control-Request-Method: POST']],
  ];
  const forgeries = Object.entries(waysToForge([...OVERRIDES, 'X-Forwarded-Host']));

  for (const proxy of PROXIES)
    for (const [how, edit] of Object.entries(edits))
      await t.test(`${proxy.name} ${how}`, { skip: proxy.skip }, async (t) => {
        const { url } = await proxy.start(t, site, edit);
        await dropsOverrides(t, url);
        await opensNoSocketToReaders(t, url);
      });

  async function dropsOverrides(t: Test, url: string): Promise<void> {
    for (const [line, lines, body] of ways) {
      seen.length = 0;
      for (const [, forged] of forgeries) await status(url, line, [...lines, ...forged], body);
      t.equal(seen.length, forgeries.length, `${line} reaches the application, whatever is forged`);
      t.strictSame(seen.flatMap(overridesIn), [], line);
      t.strictSame(
        seen.map(({ headers }) => [headers.host, headers['x-forwarded-host']].join()),
        forgeries.map(() => 'x,x'),
        `${line}: the host is the client’s own, once`,
      );
    }
  }

  /** A WebSocket begins with a GET, but its client also writes. */
  async function opensNoSocketToReaders(t: Test, url: string): Promise<void> {
    for (const [upgrade, connection = 'Upgrade'] of [
      ['websocket'],
      ['WebSocket'],
      ['websocket', 'keep-alive, upgrade'],
      ['websocket', 'close'],
      ['h2c'],
      ['websocket\r\nUpgrade: h2c'],
      ['h2c\r\nUPGRADE: websocket'],
    ] as const) {
      const lines = [`Connection: ${connection}`, `Upgrade: ${upgrade}`];
      seen.length = 0;
      t.equal(await status(url, 'GET /reports/x', [...reader, ...lines]), '403', lines.join());
      t.equal(await status(url, 'HEAD /reports/x', [...reader, ...lines]), '403', lines.join());
      t.strictSame(seen, []);
    }
    // nginx before 1.23 reads the first of several alone, and passes that on.
    await status(url, 'GET /reports/x', [...reader, 'Connection: Upgrade', 'Upgrade:', 'Upgrade: websocket']);
    t.strictSame(
      seen.filter(({ headers }) => headers.upgrade),
      [],
    );
    t.equal(await status(url, 'GET /reports/x', [...signedIn, ...WEBSOCKET]), '101', 'others open one');
    t.equal(await status(url, 'GET /reports/x', reader), '201');
  }
});

/** What arrived of them, in any spelling that an application may read as theirs, and other forged values. */
function overridesIn({ rawHeaders, rawTrailers }: Seen): string[] {
  const overrides = OVERRIDES.map((name) => name.toLowerCase());
  const received = [...rawHeaders, ...rawTrailers];
  return received.filter((text, i) => {
    const name = text.toLowerCase().replaceAll(/[^a-z0-9]/g, '-');
    return i % 2 === 0 ? overrides.includes(name) : text === 'spoofed';
  });
}

test('docs/integrating/proxies.md prints the whole list', (t) => {
  const text = readDocument('docs/integrating/proxies.md');
  const [, table = ''] = /^\| names another[^\n]*\n((?:\|.*\n)+)/m.exec(text) ?? [];
  t.strictSame(table.match(/(?<=`)[\w-]+(?=`)/g), OVERRIDES);
  const [, filter = ''] = /^ +remove:\n((?: +- .*\n)+)/m.exec(text) ?? [];
  const removed = ['Authorization', ...OVERRIDES, 'X-Forwarded-Host'];
  t.strictSame(
    filter.match(/(?<=- ).+/g),
    removed.map((name) => name.toLowerCase()),
  );
  t.ok(removed.length <= 16, 'as many as a filter of the Gateway API may hold');
  t.end();
});
