import type { FastifyRequest } from 'fastify';
import { test } from 'tap';
import { isHiddenByRelay } from '../../../src/http/caller/address.ts';
import { makeRelayWarning, relayHint } from '../../../src/http/caller/relay.ts';
import { buildTestApp } from '../../support/app.ts';
import { call, pairOf, refresh, signUp } from '../../support/client.ts';
import { logLines } from '../../support/log-lines.ts';
import { refused } from '../../support/problem.ts';

const HOUR = 3_600_000;
const FORWARDED = { 'x-forwarded-for': '203.0.113.7' };
const HINT = /TRUST_PROXY does not list that relay/;
const RELAYED = 'a relay forwards an address that does not count';

function aRequest(
  ip: string,
  { headers = FORWARDED, ips = [ip] }: { headers?: object; ips?: string[] } = {},
) {
  const warnings: unknown[] = [];
  const log = { warn: (fields: unknown, message: string) => warnings.push([fields, message]) };
  return { request: { ip, ips, headers, log } as unknown as FastifyRequest, warnings };
}

test('a relay is a peer that forwards an address and is not listed', (t) => {
  t.equal(isHiddenByRelay(aRequest('10.0.0.1').request), true);
  t.equal(isHiddenByRelay(aRequest('10.0.0.1', { headers: { forwarded: 'for=203.0.113.7' } }).request), true);
  t.equal(isHiddenByRelay(aRequest('10.0.0.1', { headers: {} }).request), false);
  const ips = ['10.0.0.1', '203.0.113.7'];
  t.equal(isHiddenByRelay(aRequest('203.0.113.7', { ips }).request), false, 'a listed peer');
  t.end();
});

test('only refusals that a relay can cause name it', (t) => {
  const { request } = aRequest('10.0.0.1');
  t.match(relayHint('rate_limited', request), HINT);
  t.match(relayHint('refresh_overlap', request), HINT);
  for (const code of ['unavailable', 'overloaded', 'invalid_token', 'invalid_credentials'] as const)
    t.equal(relayHint(code, request), null, code);
  t.equal(relayHint('rate_limited', aRequest('10.0.0.1', { headers: {} }).request), null);
  t.end();
});

test('the log names each relay once an hour, and no public address', (t) => {
  let now = 0;
  const warnOfRelay = makeRelayWarning({ monotonic: () => now });
  const warned = (ip: string) => {
    const { request, warnings } = aRequest(ip);
    warnOfRelay(request);
    return warnings;
  };
  t.match(warned('10.0.0.1'), [[{ peer: '10.0.0.1' }, RELAYED]]);
  t.strictSame(warned('10.0.0.1'), []);
  t.match(warned('::ffff:10.0.0.2'), [[{ peer: '10.0.0.2' }, RELAYED]], 'another relay');
  const [first] = warned('198.51.100.1');
  t.match(first, [{ peer: 'a public address' }, RELAYED]);
  t.notMatch(JSON.stringify(first), /198\.51|203\.0\.113/);
  t.strictSame(warned('198.51.100.2'), [], 'public addresses share one warning');
  now = HOUR - 1;
  t.strictSame(warned('10.0.0.1'), []);
  now = HOUR;
  t.equal(warned('10.0.0.1').length, 1, 'again after an hour');
  t.end();
});

test('the relays that are remembered have a limit', (t) => {
  let now = 0;
  const warnOfRelay = makeRelayWarning({ monotonic: () => now });
  const warnAll = () => {
    const requests = Array.from({ length: 1000 }, (_, i) => aRequest(`10.0.${i >> 8}.${i & 255}`));
    for (const { request } of requests) warnOfRelay(request);
    return requests.flatMap(({ warnings }) => warnings).length;
  };
  t.equal(warnAll(), 64);
  t.equal(warnAll(), 0);
  now = HOUR;
  t.equal(warnAll(), 64);
  t.end();
});

test('a 429 and an overlap behind a relay say so, in the answer and in the log', async (t) => {
  const target = await buildTestApp(t, { env: { RATE_LIMIT_LOGIN: '1/600' } });
  const logIn = (headers: Record<string, string> = {}) =>
    call(target, 'POST /api/auth', { payload: { username: 'ada', password: 'x' }, headers });
  const warnings = () => logLines(target.log()).filter(({ msg }) => String(msg).includes(RELAYED));
  const detailOf = (answer: { json: () => { detail: string } }) => answer.json().detail;

  await logIn();
  const plain = await logIn();
  refused(t, plain, 429, 'rate_limited');
  t.notMatch(detailOf(plain), HINT, 'a client of its own');
  t.strictSame(warnings(), []);
  const limited = await logIn(FORWARDED);
  refused(t, limited, 429, 'rate_limited');
  t.match(detailOf(limited), HINT);
  t.match(warnings(), [{ level: 'warn', peer: '127.0.0.1', reqId: limited.headers['x-request-id'] }]);

  const { refresh_token: token } = await signUp(target);
  pairOf(await refresh(target, token, FORWARDED));
  const overlap = await refresh(target, token, FORWARDED);
  refused(t, overlap, 503, 'refresh_overlap');
  t.match(detailOf(overlap), HINT);
  t.equal(warnings().length, 1, 'once for each relay');
  t.notMatch(target.log(), '203.0.113.7');
});

test('a listed proxy is no relay that hides anything', async (t) => {
  const env = { RATE_LIMIT_LOGIN: '1/600', TRUST_PROXY: 'loopback' };
  const target = await buildTestApp(t, { env });
  const options = { payload: { username: 'ada', password: 'x' }, headers: FORWARDED };
  await call(target, 'POST /api/auth', options);
  const limited = await call(target, 'POST /api/auth', options);
  refused(t, limited, 429, 'rate_limited');
  t.notMatch(limited.json<{ detail: string }>().detail, HINT);
  t.notMatch(target.log(), RELAYED);
});

test('a listed relay that sends only Forwarded is not called unlisted', async (t) => {
  const env = { RATE_LIMIT_LOGIN: '1/600', TRUST_PROXY: 'loopback' };
  const target = await buildTestApp(t, { env });
  const headers = { forwarded: 'for=203.0.113.7' };
  const logIn = () =>
    call(target, 'POST /api/auth', { payload: { username: 'ada', password: 'x' }, headers });
  await logIn();
  const limited = await logIn();
  refused(t, limited, 429, 'rate_limited');
  const { detail } = limited.json<{ detail: string }>();
  t.match(detail, 'A relay forwarded this request without X-Forwarded-For: all its users count as one.');
  t.notMatch(detail, HINT);
  const { refresh_token: token } = await signUp(target);
  pairOf(await refresh(target, token, headers));
  const overlap = await refresh(target, token, headers);
  refused(t, overlap, 503, 'refresh_overlap');
  t.match(overlap.json<{ detail: string }>().detail, 'without X-Forwarded-For: a retry');
  t.match(target.log(), /have them send X-Forwarded-For/);
});
