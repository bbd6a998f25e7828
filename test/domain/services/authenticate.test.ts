import { test } from 'tap';
import { makeRegisteredServices } from '../../../src/domain/services/authenticate.ts';
import { hashSecret } from '../../../src/domain/services/secret.ts';
import { DEFAULT_RIGHTS, RIGHTS, type Right } from '../../../src/domain/rights.ts';
import type { RegisteredService } from '../../../src/domain/services/registered-service.ts';
import type { ServiceTrust } from '../../../src/domain/services/assertion.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import { aServiceRecord } from '../../support/memory-service-store.ts';

const CLOCK = { now: () => 1_795_000_000_000, isTrusted: () => true };

function aDirectory(...secrets: [serviceId: string, secret: string][]) {
  const clients = new Map<string, RegisteredService>();
  const add = (
    serviceId: string,
    secret: string,
    rights: readonly Right[] = DEFAULT_RIGHTS,
    changes: Partial<RegisteredService> = {},
  ) => {
    const secretHash = hashSecret(secret);
    clients.set(
      serviceId,
      aServiceRecord({ serviceId, name: `name of ${serviceId}`, secretHash, rights, ...changes }),
    );
  };
  for (const [serviceId, secret] of secrets) add(serviceId, secret);
  let refreshes = 0;
  return {
    add,
    refreshes: () => refreshes,
    find: (serviceId: string) => clients.get(serviceId),
    findTrusting: ({ subject }: ServiceTrust) => clients.get(subject),
    hasAudience: (audience: string) => [...clients.values()].some((client) => client.audience === audience),
    refresh: () => {
      refreshes++;
      return Promise.resolve();
    },
  };
}

test('a known client is admitted without a query of the record', async (t) => {
  const directory = aDirectory(['a', 'secret']);
  const clients = makeRegisteredServices(directory, CLOCK);
  const proof = { by: 'secret', secretHash: hashSecret('secret') } as const;
  t.same(await clients.authenticate('a', 'secret', 'revoke'), {
    serviceId: 'a',
    name: 'name of a',
    proof,
    audience: null,
  });
  t.equal(directory.refreshes(), 0);
  const refusal = (serviceId: string, secretHash = proof.secretHash) =>
    clients.refusalOf({ serviceId, name: '', audience: null, proof: { by: 'secret', secretHash } }, 'revoke');
  t.equal(refusal('a'), null);
  t.match(refusal('b'), { code: 'invalid_client', reason: 'unknown' });
  t.match(refusal('a', hashSecret('another')), { code: 'invalid_client', reason: 'secret' });
});

test('no client is refused before the record is queried, for an unknown id or a wrong secret', async (t) => {
  const directory = aDirectory(['a', 'old']);
  const clients = makeRegisteredServices(
    {
      ...directory,
      refresh: () => {
        directory.add('a', 'new');
        directory.add('b', 'secret');
        return directory.refresh();
      },
    },
    CLOCK,
  );
  t.match(await clients.authenticate('a', 'new', 'revoke'), { serviceId: 'a' });
  t.match(await clients.authenticate('b', 'secret', 'revoke'), { serviceId: 'b' });
  t.equal(directory.refreshes(), 1, 'the first query loaded the second client too');
  for (const [id, secret] of [
    ['a', 'old'],
    ['a', ''],
    ['c', 'secret'],
    ['__proto__', 'secret'],
    ['', ''],
  ] as const)
    await t.rejects(clients.authenticate(id, secret, 'revoke'), { code: 'invalid_client' }, id);
  t.equal(directory.refreshes(), 6);
});

test('an outage is not a refusal', async (t) => {
  const directory = aDirectory(['a', 'secret']);
  const refresh = () => Promise.reject(new AuthError('unavailable'));
  const clients = makeRegisteredServices({ ...directory, refresh }, CLOCK);
  t.match(await clients.authenticate('a', 'secret', 'revoke'), { serviceId: 'a' });
  await t.rejects(clients.authenticate('a', 'wrong', 'revoke'), { code: 'unavailable' });
  await t.rejects(clients.authenticate('b', 'secret', 'revoke'), { code: 'unavailable' });
});

test('a right is checked in memory, and a missing one is looked up before it is refused', async (t) => {
  for (const right of RIGHTS) {
    const directory = aDirectory();
    directory.add('a', 'secret', [right]);
    const clients = makeRegisteredServices(directory, CLOCK);
    t.match(await clients.authenticate('a', 'secret', right), { serviceId: 'a' });
    t.equal(directory.refreshes(), 0);
    for (const other of RIGHTS.filter((each) => each !== right))
      await t.rejects(clients.authenticate('a', 'secret', other), { code: 'right_missing', right: other });
    await t.rejects(clients.authenticate('a', 'wrong', right), { code: 'invalid_client', right: undefined });
  }
});

test('a right that was just given counts at once, and one that was taken away as soon as it is known', async (t) => {
  const directory = aDirectory(['a', 'secret']);
  const refresh = () => {
    directory.add('a', 'secret', ['users.read']);
    return Promise.resolve();
  };
  const clients = makeRegisteredServices({ ...directory, refresh }, CLOCK);
  const identity = await clients.authenticate('a', 'secret', 'users.read');
  t.equal(clients.refusalOf(identity, 'users.read'), null);
  t.match(clients.refusalOf(identity, 'introspect'), { code: 'right_missing' });
  directory.add('a', 'secret', []);
  t.match(clients.refusalOf(identity, 'users.read'), { code: 'right_missing' });
});

test('a missing right is not refused while the database is down', async (t) => {
  const directory = aDirectory(['a', 'secret']);
  const refresh = () => Promise.reject(new AuthError('unavailable'));
  const clients = makeRegisteredServices({ ...directory, refresh }, CLOCK);
  await t.rejects(clients.authenticate('a', 'secret', 'users.read'), { code: 'unavailable' });
});

test('an audience is known from memory; an unknown one is looked up, and an outage is no answer', async (t) => {
  const directory = aDirectory(['a', 'secret']);
  const audiences = new Set(['orders']);
  const hasAudience = (audience: string) => audiences.has(audience);
  const clients = makeRegisteredServices(
    {
      ...directory,
      hasAudience,
      refresh: () => {
        audiences.add('new');
        return directory.refresh();
      },
    },
    CLOCK,
  );
  t.equal(await clients.hasAudience('orders'), true);
  t.equal(directory.refreshes(), 0);
  t.equal(await clients.hasAudience('new'), true);
  t.equal(await clients.hasAudience('unknown'), false);
  t.equal(directory.refreshes(), 2);

  const refresh = () => Promise.reject(new AuthError('unavailable'));
  const away = makeRegisteredServices({ ...directory, hasAudience, refresh }, CLOCK);
  t.equal(await away.hasAudience('orders'), true);
  await t.rejects(away.hasAudience('unknown'), { code: 'unavailable' });
});

test('a service token is good while its client is enabled and has its version', async (t) => {
  const directory = aDirectory();
  const expiresAt = CLOCK.now() / 1000 + 60;
  const token = { type: 'service', serviceId: 'a', version: 2, audience: 'latchkey', expiresAt } as const;
  const has = (changes: Partial<RegisteredService>) => {
    directory.add('a', 'secret', ['revoke'], changes);
  };
  const clients = makeRegisteredServices(directory, CLOCK);
  const refused = (reason: string, more = {}) =>
    t.rejects(clients.authenticateToken({ ...token, ...more }, 'revoke'), { code: 'invalid_token', reason });

  await refused('gone');
  has({ version: 2 });
  t.equal(directory.refreshes(), 1);
  const identity = await clients.authenticateToken(token, 'revoke');
  t.match(identity, { serviceId: 'a', proof: { by: 'token', token } });
  t.strictSame(await clients.admitAgain(identity, null), identity);
  t.match(clients.find('a'), { version: 2 });
  t.equal(directory.refreshes(), 1);
  await refused('revoked', { version: 1 });
  t.equal(directory.refreshes(), 1, 'no query tells that an older version is good');
  await refused('revoked', { version: 3 });
  await t.rejects(clients.authenticateToken(token, 'introspect'), { code: 'right_missing', serviceId: 'a' });
  t.equal(directory.refreshes(), 3, 'a newer version and a right may be on record');
  await refused('expired', { expiresAt: expiresAt - 65 });
  has({ version: 2, disabledAt: 1 });
  await t.rejects(clients.admitAgain(identity, null), { code: 'invalid_token', reason: 'disabled' });
});

test('a workload opens the client that trusts its issuer for its subject', async (t) => {
  const directory = aDirectory();
  const trust = { issuer: 'https://issuer.example', subject: 'a' };
  const others = [
    { ...trust, subject: 'b' },
    { issuer: 'https://other.example', subject: 'a' },
  ];
  const has = (changes: Partial<RegisteredService>) => {
    directory.add('a', 'secret', ['revoke'], changes);
  };
  const clients = makeRegisteredServices(directory, CLOCK);
  const refused = (reason: string) =>
    t.rejects(clients.authenticateWorkload(trust, null), { code: 'invalid_client', reason });

  await refused('assertion');
  has({ trusts: others });
  await refused('assertion');
  has({ trusts: [...others, trust] });
  const proof = { by: 'assertion', trust };
  t.match(await clients.authenticateWorkload(trust, 'revoke'), { serviceId: 'a', proof });
  has({ trusts: [trust], disabledAt: 1 });
  await refused('disabled');
});
