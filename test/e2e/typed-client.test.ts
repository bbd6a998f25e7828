import { test } from 'tap';
import { ADMIN_MISTAKES, ADMIN_PROGRAM } from '../typed-client/admin-program.ts';
import { anAccount } from '../support/client.ts';
import { compileWithClient } from '../typed-client/generated-client.ts';
import { testDatabase } from '../support/postgres.ts';
import { ready, startService } from '../support/service.ts';
import { aRegisteredService } from '../support/registered-service.ts';
import { MISTAKES, PROGRAM } from '../typed-client/user-program.ts';
import '../support/watch-leaks.ts';

test('a typed client that is generated from the document', async (t) => {
  const { url: databaseUrl } = await testDatabase(t);
  const service = await startService(t, { DATABASE_URL: databaseUrl });
  await ready(service);
  const run = await compileWithClient(t, service, PROGRAM, MISTAKES);
  t.match(await run([anAccount().username]), {
    user: Number,
    verified: 200,
    types: ['refresh', 'refresh', 'llt'],
    ended: 'logged out',
    code: 'invalid_token',
    owner: null,
  });
});

test('an administrator’s script that uses the generated client', async (t) => {
  const { url: databaseUrl } = await testDatabase(t);
  const service = await startService(t, { DATABASE_URL: databaseUrl, SIGNUP_ENABLED: 'false' });
  await ready(service);
  const client = await aRegisteredService(databaseUrl, 'admin', ['users.read', 'users.write', 'users.reset']);
  const run = await compileWithClient(t, service, ADMIN_PROGRAM, ADMIN_MISTAKES);
  const { username } = anAccount();
  const done = await run([username], { CLIENT_ID: client.serviceId, CLIENT_SECRET: client.secret });
  const { id, pages } = done as { id: number; pages: number[][] };
  t.strictSame(done, {
    id,
    shown: { username, disabled: false, verified: false, roles: ['orders:read'] },
    found: [[id], [id], [id]],
    pages,
    changed: ['Ada Lovelace', true],
    isResetFresh: true,
    roles: ['orders:read', 'admin,orders:write'],
    whileDisabled: [401, 'invalid_credentials'],
    enabled: true,
    tokens: [['refresh', 'Laptop']],
    ended: 1,
    afterEnding: 401,
    afterReset: [401, 'invalid_credentials'],
    afterDeletion: [401, 'user_unknown', 'user_unknown'],
  });
  t.strictSame(
    pages.map(({ length }) => length),
    [2, 2, 1],
  );
  const all = pages.flat();
  t.equal(all[0], id);
  t.equal(new Set(all).size, 5, 'each user once');
});
