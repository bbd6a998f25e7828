/** A user that the kit knows. */
export interface Account {
  username: string;
  name: string;
  email: string;
  password: string;
}

/** Known and public: a database with these users serves nothing but tests. */
export const PASSWORD = 'a load test, and no secret';

/** No real address ends like this: `.invalid` is reserved (RFC 2606). It tells the kit's users from all others. */
export const EMAIL_DOMAIN = 'load.invalid';

/** User `i` of `npm run load -- seed`, the same in every run. */
export function seededAccount(i: number): Account {
  return anAccount(`load-${i}`, `Load ${i}`);
}

/** A user who signs up during a run. @param run tells runs on the same database apart. */
export function newAccount(run: string, i: number): Account {
  return anAccount(`load-${run}-${i}`, `Load ${run} ${i}`);
}

function anAccount(username: string, name: string): Account {
  return { username, name, email: `${username}@${EMAIL_DOMAIN}`, password: PASSWORD };
}
