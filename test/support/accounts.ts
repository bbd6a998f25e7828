import type { AccountKey } from '../../src/domain/identifiers.ts';
import type { AccountStore } from '../../src/domain/users/account.ts';
import type { Right } from '../../src/domain/rights.ts';
import { makeAccountStore } from '../../src/infra/postgres/account-store.ts';
import { makePostgres } from '../../src/infra/postgres/client.ts';
import { call, type Target } from './client.ts';
import { aRegisteredService, basic, type TestService } from './registered-service.ts';

/** Does the work of `latchkey user` without a process. */
export async function withAccounts<Result>(
  databaseUrl: string,
  work: (accounts: AccountStore) => Promise<Result>,
): Promise<Result> {
  const postgres = makePostgres({ url: databaseUrl, pool: 1, timeout: 5000, observe: null });
  try {
    return await work(makeAccountStore(postgres, () => []));
  } finally {
    await postgres.close();
  }
}

/** In the record only: the running replica sets the tombstones within a second. */
export async function disableAccount(databaseUrl: string, key: AccountKey): Promise<void> {
  await withAccounts(databaseUrl, (accounts) => accounts.change(key, { disabled: true }, Date.now()));
}

/** In the record only, as `disableAccount`. */
export async function enableAccount(databaseUrl: string, key: AccountKey): Promise<void> {
  await withAccounts(databaseUrl, (accounts) => accounts.change(key, { disabled: false }, Date.now()));
}

const ALL: readonly Right[] = [
  'introspect',
  'users.read',
  'users.write',
  'users.reset',
  'users.factors',
  'limited',
];

/** A service with these rights, as a function that sends its requests. */
export async function aManager(databaseUrl: string, target: Target, rights = ALL, name = 'back office') {
  const client = await aRegisteredService(databaseUrl, name, rights);
  return managerOf(target, client);
}

export function managerOf(target: Target, client: TestService) {
  const send = (line: string, payload?: object) =>
    call(target, line, { headers: basic(client), ...(payload && { payload }) });
  return Object.assign(send, { client });
}

export type Manager = ReturnType<typeof managerOf>;
