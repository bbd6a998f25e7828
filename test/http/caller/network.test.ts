import type { FastifyRequest } from 'fastify';
import { BlockList } from 'node:net';
import { test } from 'tap';
import { makeNetworkOf } from '../../../src/http/caller/network.ts';

const PROXY = '10.0.0.1';

/** A request forwarded by a trusted proxy, or sent by the peer itself with this header. */
function aRequest(
  ip: string,
  { forwarded = true, header = forwarded }: { forwarded?: boolean; header?: boolean } = {},
): object {
  return {
    ip,
    ips: forwarded ? [PROXY, ip] : [ip],
    headers: header ? { 'x-forwarded-for': '203.0.113.9' } : {},
  };
}

function open({ production = true } = {}) {
  const allow = new BlockList();
  allow.addSubnet('198.51.100.0', 25, 'ipv4');
  let warnings = 0;
  const log = { warn: () => warnings++ };
  const network = makeNetworkOf({
    RATE_LIMIT_ALLOW: allow,
    RATE_LIMIT_NETWORK: { count: 100, seconds: 900 },
    RATE_LIMIT_SIGNUP_NETWORK: null,
    RATE_LIMIT_LLT_NETWORK: null,
    production,
  });
  const networkOf = (request: object) => network({ ...request, log } as unknown as FastifyRequest);
  return { networkOf, warnings: () => warnings };
}

test('an IPv4 address belongs to its /24, an IPv6 address to its /48', (t) => {
  const { networkOf, warnings } = open();
  const networks = {
    '203.0.113.0/24': ['203.0.113.7', '203.0.113.255:99', '::ffff:203.0.113.1', '::ffff:cb00:7101'],
    '2001:db8:1::/48': ['2001:db8:1::1', '2001:DB8:1:ffff::9', '[2001:db8:1:2::3]:99'],
    '2001:0:0::/48': ['2001::1'],
    unknown: ['unknown', '1.2.3.4:x'],
  };
  for (const [network, addresses] of Object.entries(networks)) {
    for (const address of addresses) t.equal(networkOf(aRequest(address)), network, address);
  }
  t.equal(networkOf(aRequest('203.0.113.7', { forwarded: false })), '203.0.113.0/24', 'a peer’s own');
  t.equal(warnings(), 0);
  t.end();
});

test('allowed addresses have no network, without a warning', (t) => {
  const { networkOf, warnings } = open();
  t.equal(networkOf(aRequest('198.51.100.127')), null);
  t.equal(networkOf(aRequest('198.51.100.128')), '198.51.100.0/24');
  t.equal(warnings(), 0);
  t.end();
});

test('private addresses have no network and log one warning, an unlisted peer has its own', (t) => {
  const inside = [
    '10.9.9.9',
    '172.16.0.1',
    '172.31.0.1',
    '192.168.0.1',
    '127.0.0.2',
    '169.254.1.1',
    '100.127.0.1',
  ];
  for (const address of [...inside, '::1', 'fd00::1', 'fe80::1%eth0', '::ffff:10.0.0.1']) {
    const { networkOf, warnings } = open();
    for (let i = 0; i < 3; i++) t.equal(networkOf(aRequest(address)), null, address);
    t.equal(warnings(), 1, address);
  }
  const { networkOf, warnings } = open();
  for (let i = 0; i < 3; i++)
    t.equal(networkOf(aRequest('192.0.2.1', { forwarded: false, header: true })), '192.0.2.0/24');
  t.equal(warnings(), 0, 'the caller’s fingerprint has a warning of its own (client.ts)');
  for (const here of ['127.0.0.1', '::1', '::ffff:127.0.0.1']) {
    const development = open({ production: false });
    development.networkOf(aRequest(here, { forwarded: false }));
    t.equal(development.warnings(), 0, 'a developer on this host is no proxy');
    development.networkOf(aRequest(here, { forwarded: false, header: true }));
    t.equal(development.warnings(), 1, 'a relay on this host');
    const { networkOf, warnings } = open();
    networkOf(aRequest(here, { forwarded: false }));
    t.equal(warnings(), 1, 'in production');
  }
  for (const outside of ['172.32.0.1', '100.128.0.1', '11.0.0.1', '128.0.0.1', 'fec0::1', '::2'])
    t.not(networkOf(aRequest(outside)), null, outside);
  t.end();
});
