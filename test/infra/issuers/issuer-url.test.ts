import { test } from 'tap';
import { discoveryUrl, keysUrl } from '../../../src/infra/issuers/issuer-url.ts';

test('keys are looked for over https, and over http on this host', (t) => {
  for (const [issuer, base] of [
    ['https://issuer.example.com', 'https://issuer.example.com'],
    ['https://issuer.example.com/', 'https://issuer.example.com'],
    ['https://issuer.example.com:8443/id/cluster', 'https://issuer.example.com:8443/id/cluster'],
    ['http://localhost:3000', 'http://localhost:3000'],
    ['http://127.8.9.1:1', 'http://127.8.9.1:1'],
    ['http://[::1]:1', 'http://[::1]:1'],
  ] as const)
    t.equal(discoveryUrl(issuer)?.href, `${base}/.well-known/openid-configuration`);
  for (const issuer of [
    'orders',
    '',
    'http://issuer.example.com',
    'http://127.example.com',
    'http://localhost.example.com',
    'ftp://127.0.0.1',
    'file:///etc',
    'https://user:secret@issuer.example.com',
    'https://user@issuer.example.com',
    'https://issuer.example.com?tenant=1',
    'https://issuer.example.com#a',
  ])
    t.equal(discoveryUrl(issuer), null, issuer);
  t.end();
});

test('a jwks_uri is as protected as the issuer', (t) => {
  const [remote, local] = [new URL('https://issuer.example.com'), new URL('http://127.0.0.1:1')];
  const both = (uri: unknown) => [keysUrl(uri, remote)?.href, keysUrl(uri, local)?.href];
  t.strictSame(both('https://keys.example.com/a?b'), Array(2).fill('https://keys.example.com/a?b'));
  t.strictSame(both('http://127.0.0.1:2/keys'), [undefined, 'http://127.0.0.1:2/keys']);
  for (const uri of ['http://keys.example.com', 'https://a:b@keys.example.com', '/keys', undefined, 7])
    t.strictSame(both(uri), [undefined, undefined], String(uri));
  t.end();
});
