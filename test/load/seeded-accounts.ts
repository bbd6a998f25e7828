import { anAccount, type NewAccount } from '../../packages/load/src/accounts.ts';
import type { ListSeeded } from '../../packages/load/src/arguments.ts';

/** Known and public: a database with these users serves nothing but tests. */
export const PASSWORD = 'a load test, and no secret';

/** User `i` of `npm run load -- seed`, the same in every run. */
export function seededAccount(i: number): NewAccount {
  return anAccount(`load-${i}`, `Load ${i}`, PASSWORD);
}

export const listSeeded: ListSeeded = (users) => ({
  from: 'list',
  list: Array.from({ length: users }, (_, i) => seededAccount(i)),
  hint: "run `npm run load -- seed --users N` against the service's database",
});
