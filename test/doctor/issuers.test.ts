import { test } from 'tap';
import type { PublicJwks } from '../../src/domain/services/assertion.ts';
import { checkIssuers } from '../../src/doctor/issuers.ts';
import { aConfig, runDoctor } from '../support/doctor.ts';
import { fakeIssuer, JWKS, SUBJECT } from '../support/fake-issuer.ts';
import { testDatabase } from '../support/postgres.ts';
import { aRegisteredService, withRegistry } from '../support/registered-service.ts';

test('each issuer without a file is fetched, and the finding says what it published', async (t) => {
  const { url } = await testDatabase(t);
  const issuer = await fakeIssuer(t, { audience: 'http://localhost:3000' });
  await aRegisteredService(url);
  const trust = (iss: string, jwks: PublicJwks | null = null) =>
    withRegistry(url, (registry) => registry.trust('billing', { issuer: iss, subject: SUBJECT }, jwks));
  await trust(issuer.url);
  await trust('spiffe://shop');
  await trust('https://file.example', { keys: issuer.published });
  const look = () => checkIssuers(aConfig({ DATABASE_URL: url }));
  const check = `issuer ${issuer.url}`;

  const unusable = { check: 'issuer spiffe://shop', state: 'fail', todo: /--jwks FILE/ };
  const here = /usable keys: 1; fetched from where doctor runs/;
  const found = await look();
  t.match(found, [{ check, state: 'ok', found: here }, unusable]);
  t.equal(found.length, 2);
  issuer.published = [{ kty: 'oct', k: 'AAAA' }];
  t.match(await look(), [
    { check, state: 'fail', found: /usable keys: 0/, todo: /check the issuer/ },
    unusable,
  ]);
  issuer.ill.set(JWKS, '500');
  t.match(await look(), [
    { check, state: 'warn', found: /status is 500/, todo: /without a redirect/ },
    unusable,
  ]);
  await issuer.stop();
  t.match((await runDoctor({ DATABASE_URL: url })).findings, {
    'issuer http://': [{ state: 'warn', found: /ECONNREFUSED/, todo: String }],
  });
});
