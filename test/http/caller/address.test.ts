import type { FastifyRequest } from 'fastify';
import { test } from 'tap';
import {
  callerAddress,
  readAddress,
  UNREADABLE,
  makeTrustedProxies,
} from '../../../src/http/caller/address.ts';

const bucket = (ip: string) => callerAddress({ ip } as FastifyRequest);

test('reads an address without port, brackets and zone', (t) => {
  const same: Record<string, string[]> = {
    '192.0.2.1': ['192.0.2.1', '192.0.2.1:5678', ' 192.0.2.1 ', '[192.0.2.1]:80', '::ffff:192.0.2.1'],
    '192.0.2.2': ['::FFFF:192.0.2.2', '::ffff:c000:202', '0:0:0:0:0:ffff:c000:0202', '[::ffff:192.0.2.2]:1'],
    '2001:db8::1': ['2001:db8::1', '2001:DB8::1', '[2001:db8::1]', '[2001:db8::1]:99', '2001:db8::1%eth0'],
  };
  for (const [text, entries] of Object.entries(same)) {
    for (const entry of entries) t.equal(readAddress(entry)?.text, text, entry);
  }
  t.end();
});

test('text that is not an address gives null', (t) => {
  const wrong = [
    '',
    ' ',
    'x',
    'unknown',
    '_hidden',
    '1.2.3',
    '1.2.3.4.5',
    '256.1.1.1',
    '01.2.3.4',
    '1.2.3.4:',
  ];
  wrong.push(
    '1.2.3.4:x',
    '1.2.3.4:1234567',
    '[2001:db8::1',
    '2001:db8::1]',
    '[]:1',
    '[x]:1',
    '%eth0',
    '1.2.3.4 5',
  );
  for (const entry of wrong) t.equal(readAddress(entry), null, entry);
  t.equal(readAddress(undefined), null, 'a peer that has disconnected');
  t.end();
});

test('requests share a bucket by IPv4 address or IPv6 /64', (t) => {
  t.equal(bucket('192.0.2.1:5'), '192.0.2.1');
  t.not(bucket('192.0.2.2'), bucket('192.0.2.1'));
  const client = bucket('2001:db8:0:1::5');
  t.equal(client, '2001:db8:0:1::/64');
  for (const same of ['2001:db8:0:1:ffff:ffff:ffff:ffff', '2001:0DB8::1:0:0:0:1', '[2001:db8:0:1::5]:99']) {
    t.equal(bucket(same), client, same);
  }
  for (const other of ['2001:db8:0:2::5', '2001:db8::5', '::1', '1::']) t.not(bucket(other), client, other);
  t.equal(bucket('::'), '0:0:0:0::/64');
  t.equal(bucket('64:ff9b::192.0.2.1'), '64:ff9b:0:0::/64', 'not a mapped address');
  t.end();
});

test('all unreadable addresses share one bucket', (t) => {
  for (const entry of ['x', '1.2.3.4:x', '']) t.equal(bucket(entry), UNREADABLE);
  t.end();
});

function trusts(entries: string[], address: string | undefined): boolean {
  return makeTrustedProxies(entries)(address);
}

test('addresses and networks are trusted, with or without a port', (t) => {
  const entries = ['10.0.0.0/8', '192.0.2.7', '2001:db8::/32'];
  for (const address of ['10.1.2.3', '10.1.2.3:99', '::ffff:10.1.2.3', '192.0.2.7:1', '[2001:db8:5::1]:99'])
    t.ok(trusts(entries, address), address);
  for (const address of ['11.1.2.3', '192.0.2.8', '[2001:db9::1]:99', 'x', '', undefined])
    t.notOk(trusts(entries, address), `${address}`);
  t.end();
});

test('named ranges cover their addresses', (t) => {
  const inside = {
    loopback: ['127.0.0.1', '127.9.9.9', '::1', '::ffff:127.0.0.1'],
    linklocal: ['169.254.1.1', 'fe80::1', 'fe80::1%eth0'],
    uniquelocal: ['10.1.1.1', '172.16.0.1', '172.31.255.255', '192.168.1.1', 'fd00::1'],
  };
  for (const [range, addresses] of Object.entries(inside)) {
    for (const address of addresses) t.ok(trusts([range], address), `${range}: ${address}`);
    for (const address of ['172.32.0.1', '128.0.0.1', '::2', '2001:db8::1', '192.0.2.1'])
      t.notOk(trusts([range], address), `${range}: ${address}`);
  }
  t.end();
});

test('trusting all addresses of one family trusts none of the other', (t) => {
  t.ok(trusts(['0.0.0.0/0'], '203.0.113.9'));
  t.notOk(trusts(['0.0.0.0/0'], '2001:db8::1'));
  t.ok(trusts(['::/0'], '2001:db8::1'));
  t.notOk(trusts(['::/0'], '203.0.113.9'));
  t.end();
});

test('a network of mapped IPv4 addresses is an IPv4 network', (t) => {
  t.ok(trusts(['::ffff:10.0.0.0/104'], '10.200.1.1'));
  t.notOk(trusts(['::ffff:10.0.0.0/104'], '11.0.0.1'));
  t.ok(trusts(['::ffff:192.0.2.1'], '192.0.2.1'));
  t.notOk(trusts(['::ffff:10.0.0.0/64'], '10.0.0.1'), 'and a shorter prefix is IPv6');
  t.end();
});
