import type { FastifyRequest } from 'fastify';
import { test } from 'tap';
import { makeCallerFingerprint } from '../../../src/http/caller/fingerprint.ts';
import { buildTestApp } from '../../support/app.ts';
import { anAccount, call, type Pair } from '../../support/client.ts';
import { answersIn, exchange } from '../../support/raw.ts';
import '../../support/watch-leaks.ts';
import { cleanUserAgent, deviceNameOf, deviceOf } from '../../../src/http/caller/user-agent.ts';

const utf8 = (text: string) => Buffer.from(text);
const latin1 = (text: string) => Buffer.from(text, 'latin1');

test('the bytes of a User-Agent are read as UTF-8 if they are that, else as Latin-1', async (t) => {
  const target = await buildTestApp(t);
  const url = await target.app.listen({ port: 0, host: '127.0.0.1' });

  for (const { sent, device, agent } of [
    {
      sent: utf8('微信读书/8.0.1 CFNetwork/1.0'),
      device: '微信读书/8.0.1',
      agent: '微信读书/8.0.1 CFNetwork/1.0',
    },
    { sent: latin1('Café/1.0'), device: 'Café/1.0' },
    { sent: Buffer.concat([latin1('Café/'), utf8('é')]), device: 'Café/Ã©' },
    { sent: utf8(`${'x'.repeat(63)}😀😀`), device: `${'x'.repeat(63)}😀`, agent: `${'x'.repeat(63)}😀😀` },
    {
      sent: utf8(`${'x'.repeat(255)}😀😀`),
      device: 'x'.repeat(64),
      agent: `${'x'.repeat(255)}😀`,
    },
    {
      sent: utf8(`a ada＠example.com\u2028${'é'.repeat(1000)}`),
      device: 'a',
      agent: `a [removed] ${'é'.repeat(244)}`,
    },
  ]) {
    const body = JSON.stringify(anAccount());
    const head = `POST /api/auth/signup HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n`;
    const request = [`${head}Content-Length: ${body.length}\r\nUser-Agent: `, sent, `\r\n\r\n${body}`];
    const [answer] = answersIn(await exchange(url, Buffer.concat(request.map((part) => Buffer.from(part)))));
    const { access_token: token } = JSON.parse(answer?.body ?? '') as Pair;
    const list = await call(target, 'GET /api/user/tokens', { token });
    t.match(list.json(), { tokens: [{ name: device }] });
    t.equal(target.audit().at(-1)?.user_agent, agent ?? device);
  }
});

test('the fingerprint is made of the bytes as Node gives them, as in a session of 1.0.0', (t) => {
  const fingerprint = makeCallerFingerprint({ newest: (_parts, agent) => agent }, () => undefined);
  const given = utf8('微信读书/8.0.1').toString('latin1');
  t.equal(
    fingerprint({ headers: { 'user-agent': given }, ip: '192.0.2.1' } as unknown as FastifyRequest),
    given,
  );
  t.end();
});

test('what a User-Agent shows of private text is removed', (t) => {
  const browser = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0';
  t.equal(cleanUserAgent(browser), browser);
  for (const text of [
    'ada@example.com',
    'ada＠example.com',
    'ada%40example.com',
    'xeyJhbGciOiJFUzI1',
    'lks_abc',
  ])
    t.equal(cleanUserAgent(`app ${text} 1.0`), 'app [removed] 1.0', text);
  t.equal(cleanUserAgent('app Basic bGtjOmxrcw== 1.0'), 'app [removed] 1.0');
  t.equal(cleanUserAgent('a\r\nb\u2028c'), 'a b c');
  t.equal(cleanUserAgent(undefined), null);
  t.end();
});

test('a device without a name gets a short one', (t) => {
  const firefox = 'Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0';
  t.equal(deviceOf(firefox), 'Firefox on Linux');
  t.equal(deviceOf('curl/8.5.0'), 'curl/8.5.0');
  t.equal(deviceOf('okhttp/4.9.3 (Android)'), 'okhttp/4.9.3');
  t.end();
});

test('a User-Agent without a product is unknown', (t) => {
  for (const userAgent of [undefined, '', ' ', 'Mozilla', '\u0085']) {
    t.match(deviceOf(userAgent), userAgent === 'Mozilla' ? 'Mozilla' : 'unknown', JSON.stringify(userAgent));
  }
  t.equal(deviceOf(`x${'y'.repeat(5000)}`).length, 64);
  t.end();
});

test('a given device name is kept unless it is invisible', (t) => {
  t.equal(deviceNameOf('Kitchen tablet', 'curl/8.5.0'), 'Kitchen tablet');
  for (const given of [undefined, '\u200b', '\u0000 '])
    t.equal(deviceNameOf(given, 'curl/8.5.0'), 'curl/8.5.0', encodeURI(given ?? 'none'));
  // The domain refuses these, each for its own reason.
  for (const given of ['', ' ', '\ud800']) t.equal(deviceNameOf(given, 'curl/8.5.0'), given);
  t.equal(deviceNameOf('\u200b', undefined), 'unknown');
  t.end();
});
