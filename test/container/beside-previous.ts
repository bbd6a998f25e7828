import type { Test } from 'tap';
import { anAccount, bearer, type Pair } from '../support/client.ts';
import { createLimitedOver, refreshOver, signUpOver, verifyOver } from '../support/over-http.ts';
import type { Mail } from '../support/mails.ts';
import { aRegisteredService, basic } from '../support/registered-service.ts';
import { sql } from '../support/sql.ts';
import { eventually } from '../support/until.ts';

interface Versions {
  /** Addresses of a replica of the previous release, and of one of this release. */
  previous: string;
  next: string;
  databaseUrl: string;
  /** Runs `latchkey purge` of the previous release. */
  purge: () => Promise<void>;
}

const SCOPE = 'orders:read';

/** What the previous release makes of limited tokens and mailed tokens, of which it knows nothing. */
export async function besidePrevious(t: Test, { previous, next, databaseUrl, purge }: Versions) {
  const ask = (url: string, line: string, headers: Record<string, string>, body?: object) => {
    const [method = '', path = ''] = line.split(' ');
    const json = { 'content-type': 'application/json' };
    const init = body ? { headers: { ...headers, ...json }, body: JSON.stringify(body) } : { headers };
    return fetch(url + path, { method, ...init });
  };
  const account = anAccount();
  const first = await signUpOver(next, account);
  const [ended, expired] = [
    await createLimitedOver(next, first.access_token, [SCOPE]),
    await createLimitedOver(next, first.access_token, [SCOPE]),
  ];
  const inScope = async ({ token }: { token: string }) =>
    (await ask(next, `GET /api/auth/scopes/${SCOPE}/verify`, bearer(token))).status;
  t.equal(await inScope(ended), 200);
  t.equal(await verifyOver(previous, ended.token), 401, 'the previous release knows no limited tokens');

  let pair = first;
  for (const url of [previous, next, previous]) {
    const refreshed = await refreshOver(url, pair.refresh_token);
    t.equal(refreshed.status, 200, 'nobody is signed out');
    pair = (await refreshed.json()) as Pair;
  }
  const owner = bearer(pair.access_token);
  const list = (await (await ask(previous, 'GET /api/user/tokens', owner)).json()) as {
    tokens: { id: number; type: string }[];
  };
  t.match(
    list.tokens.find(({ id }) => id === ended.id),
    { type: 'llt' },
  );
  t.equal((await ask(previous, `DELETE /api/auth/${ended.id}`, owner)).status, 200);
  t.equal(await inScope(ended), 401, 'the previous release ends it');
  t.equal(await inScope(expired), 200);
  await sql(databaseUrl, "UPDATE tokens SET expires_at = now() - interval '1 year' WHERE id = $1", [
    expired.id,
  ]);
  await purge();
  t.strictSame(await sql(databaseUrl, 'SELECT 1 FROM tokens WHERE id = $1', [expired.id]), []);

  const mailer = basic(await aRegisteredService(databaseUrl, 'mailer', ['mails']));
  await ask(next, 'POST /api/auth/password-reset-request', {}, { username: account.username });
  const mails: Mail[] = [];
  await eventually(30, async () => {
    const taken = await ask(next, 'POST /api/users/mails', mailer, {});
    if (taken.status === 200) mails.push(...((await taken.json()) as { mails: Mail[] }).mails);
    return mails.length > 0 ? null : `no mail: ${taken.status}`;
  });
  const passwords = { current_password: account.password, new_password: 'an analytical engine' };
  t.equal((await ask(previous, 'POST /api/user/password', owner, passwords)).status, 200);
  const redemption = { reset_token: mails[0]?.token, password: 'another analytical engine' };
  const redeemed = await ask(next, 'POST /api/auth/password-reset', {}, redemption);
  t.equal(redeemed.status, 401, 'a new password at the previous release voids the token of a mail');
}
