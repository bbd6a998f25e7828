import { randomBytes } from 'node:crypto';
import { t as file, test } from 'tap';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { toUser } from '../../../src/infra/postgres/rows.ts';
import { makeRevocationStore } from '../../../src/infra/postgres/revocation-store.ts';
import { makePasswordStore } from '../../../src/infra/postgres/password-store.ts';
import { makeFactorStore } from '../../../src/infra/postgres/factor-store.ts';
import { makeServiceStore } from '../../../src/infra/postgres/service-store.ts';
import { makeAccountStore, pageToExport } from '../../../src/infra/postgres/account-store.ts';
import { makeUserStore } from '../../../src/infra/postgres/user-store.ts';
import { makeMailStore } from '../../../src/infra/postgres/wanted-mails.ts';
import { makeTokenStore } from '../../../src/infra/postgres/token-store.ts';
import { longLivedTokensContract } from '../../contract/long-lived-tokens.ts';
import { tokenStoreContract } from '../../contract/token-store.ts';
import { openPostgres } from '../../support/open-postgres.ts';
import { testDatabase } from '../../support/postgres.ts';
import { LIFETIMES, ROOM } from '../../support/token.ts';

const { url } = await testDatabase(file);
const postgres = openPostgres(file, { url, pool: 5, timeout: 10_000 });
const { prisma } = postgres;

/** Accounts of this test only. */
async function addUser() {
  const username = `user-${randomBytes(5).toString('hex')}`;
  const passwordHash = new Uint8Array(96);
  const names = { username, skeleton: username, email: `${username}@example.com`, name: 'Ada' };
  const data = { ...names, passwordHash };
  return toUser(await prisma.user.create({ data }));
}

tokenStoreContract('postgres', async () => ({
  tokens: makeTokenStore(postgres, LIFETIMES),
  ada: await addUser(),
  bob: await addUser(),
  disable: async ({ id }) => {
    await prisma.user.update({ where: { id: BigInt(id) }, data: { disabledAt: new Date() } });
  },
}));

longLivedTokensContract('postgres', async () => ({
  tokens: makeTokenStore(postgres, LIFETIMES),
  revocations: makeRevocationStore(postgres),
  ada: await addUser(),
  bob: await addUser(),
}));

test('a standby or replaced primary is not read, because revoked tokens could return', async (t) => {
  const standby = openPostgres(t, { url, timeout: 10_000 });
  await standby.pool.query('SET default_transaction_read_only = on');
  const tokens = makeTokenStore(standby, LIFETIMES);
  const { id } = await addUser();
  const state = initialState(1_000_000, 'home');
  const session = { name: 'Firefox', createdAt: 1, state };
  const added = await makeTokenStore(postgres, LIFETIMES).addSession(id, session, ROOM);
  await t.rejects(tokens.find(added?.id ?? 0), { code: 'unavailable' });
  await t.rejects(
    tokens.find(999_999_999),
    { code: 'unavailable' },
    'the standby may not have received it yet',
  );
});

test('a standby that has not received a one-time token, account, service or factor yet does not call it wrong', async (t) => {
  const standby = openPostgres(t, { url, timeout: 10_000 });
  await standby.pool.query('SET default_transaction_read_only = on');
  const passwords = makePasswordStore(standby);
  const mails = makeMailStore(standby, {
    password_reset: 60,
    invitation: 60,
    email_verification: 60,
    email_change: 60,
  });
  const hash = new Uint8Array(32);
  const ending = { passwordHash: new Uint8Array(96), at: 1, usedSince: -1, keepsLongLived: false };
  const unavailable = { code: 'unavailable' };
  await t.rejects(passwords.findReset(hash), unavailable);
  await t.rejects(passwords.redeem(hash, ending), unavailable);
  await t.rejects(mails.verify(hash), unavailable);
  const factors = makeFactorStore(standby);
  await t.rejects(factors.findUnconfirmed({ userId: 1, tokenId: 1 }), unavailable);
  await t.rejects(factors.list(1), unavailable);
  const users = makeUserStore(standby);
  await t.rejects(users.findForLogin({ username: 'ada' }), unavailable);
  await t.rejects(users.findOwn(1), unavailable);
  const standbyTokens = makeTokenStore(standby, LIFETIMES);
  await t.rejects(standbyTokens.list(1), unavailable);
  await t.rejects(standbyTokens.listEnded(1, { since: 0, now: 1, limit: 9 }, LIFETIMES), unavailable);
  await t.rejects(makeAccountStore(standby, () => []).page(0, 9), unavailable);
  await t.rejects(pageToExport(standby.prisma, 0, 9), unavailable);
  const services = makeServiceStore(standby.prisma);
  await t.rejects(services.list(), unavailable);
  await t.rejects(services.issuers(), unavailable);
});
