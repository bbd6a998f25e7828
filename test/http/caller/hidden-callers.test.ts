import { BlockList } from 'node:net';
import type { FastifyRequest } from 'fastify';
import { test } from 'tap';
import { makeHiddenCallers } from '../../../src/http/caller/hidden-callers.ts';
import { buildTestApp } from '../../support/app.ts';

/** Logins of these addresses, in turns. */
function open() {
  const allow = new BlockList();
  allow.addAddress('10.9.9.9');
  const found: unknown[] = [];
  const log = { warn: (fields: unknown) => found.push(fields) };
  const noteLogin = makeHiddenCallers(allow);
  const logIns = (count: number, ...addresses: string[]) => {
    for (let i = 0; i < count; i++)
      noteLogin({ ip: addresses[i % addresses.length], log } as unknown as FastifyRequest);
  };
  return { logIns, found };
}

const nodes = (count: number) => Array.from({ length: count }, (_, i) => `10.0.0.${i}`);

test('190 of 200 logins from 16 private addresses are reported once', (t) => {
  const { logIns, found } = open();
  logIns(10, '203.0.113.7');
  logIns(189, ...nodes(16));
  t.strictSame(found, [], 'after 199 logins');
  logIns(1, '10.0.0.1');
  t.strictSame(found, [{ privateLogins: 190, privateAddresses: 16 }]);
  logIns(1000, ...nodes(3));
  t.equal(found.length, 1, 'it had not gone away');
  t.end();
});

test('the report is repeated after it had gone away', (t) => {
  const { logIns, found } = open();
  logIns(200, '10.0.0.1');
  logIns(200, '203.0.113.7');
  logIns(200, '10.0.0.1', '10.0.0.2');
  t.strictSame(found, [
    { privateLogins: 200, privateAddresses: 1 },
    { privateLogins: 200, privateAddresses: 2 },
  ]);
  t.end();
});

test('public clients, or many private ones, are not reported', (t) => {
  for (const [what, logInsOf] of Object.entries<(site: ReturnType<typeof open>) => void>({
    'eleven public logins of 200': ({ logIns }) => {
      logIns(11, '203.0.113.7');
      logIns(189, '10.0.0.1');
    },
    '17 private addresses': ({ logIns }) => {
      logIns(200, ...nodes(17));
    },
    'an address that RATE_LIMIT_ALLOW lists': ({ logIns }) => {
      logIns(400, '10.9.9.9');
    },
    'unreadable addresses': ({ logIns }) => {
      logIns(200, 'unknown');
    },
  })) {
    const site = open();
    logInsOf(site);
    t.strictSame(site.found, [], what);
  }
  t.end();
});

test('the service says what hides its clients, and what to do', async (t) => {
  const target = await buildTestApp(t);
  const text = () => target.log().match(/nearly all logins come from a few private addresses[^\n]*/g) ?? [];
  for (let i = 0; i < 200; i++) await target.inject({ method: 'POST', url: '/api/auth/signup', payload: {} });
  t.strictSame(text(), [], 'only logins count');
  for (let i = 0; i < 400; i++) await target.inject({ method: 'POST', url: '/api/auth', payload: {} });
  t.match(text(), [/TRUST_PROXY.*externalTrafficPolicy.*docs\/operating\.md/]);
  t.equal(text().length, 1);
});
