import { anAccount, type NewAccount } from '../src/accounts.ts';
import type { ListSeeded } from '../src/arguments.ts';

export function listedAccount(i: number): NewAccount {
  return anAccount(`load-${i}`, `Load ${i}`, 'a password');
}

/** Accounts that exist in every service, as those do that Latchkey's repository seeds. */
export const listAccounts: ListSeeded = (users) => ({
  from: 'list',
  list: Array.from({ length: users }, (_, i) => listedAccount(i)),
  hint: 'add the users to the service',
});
