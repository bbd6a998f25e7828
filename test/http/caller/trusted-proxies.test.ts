import { test } from 'tap';
import { makeTrustedProxies } from '../../../src/http/caller/trusted-proxies.ts';

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
