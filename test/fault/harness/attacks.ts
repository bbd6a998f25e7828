import { setTimeout as sleep } from 'node:timers/promises';
import { anAccount, type Pair } from '../../support/client.ts';
import { sql } from '../../support/sql.ts';
import type { ObservedReplica, ObservedSite } from './observed-site.ts';
import { RETRY_WINDOW, USUAL } from './observed-site.ts';
import { expect, pairFrom } from './ordinary-day.ts';
import { forgedFrom, times, visitor } from './visitors.ts';

/** A thief has the refresh tokens of a dozen sessions, while their owners use them. */
export async function stolenTokens(site: ObservedSite, { url }: ObservedReplica): Promise<void> {
  const owner = visitor(url, '203.0.113.50');
  const account = anAccount();
  await owner.signUp(account);
  const sessions: Pair[] = [];
  // Sequential: the limit per name allows fewer concurrent logins.
  for (let i = 0; i < 12; i++) sessions.push(await pairFrom(owner.logIn(account.username)));
  for (const { refresh_token: token } of sessions) {
    const { access_token: next } = await pairFrom(owner.refresh(token));
    expect(200, await owner.verify(next));
  }
  await sleep((RETRY_WINDOW + 1) * 1000);
  const thief = visitor(url, '198.51.100.1');
  for (const { refresh_token: token } of sessions) expect(401, (await thief.refresh(token)).status);
  await site.fire(USUAL, 'LatchkeyReuseSpike');
}

/** Guesses until the limits of the guesser's networks refuse it, and beyond. */
export async function guessedPasswords(site: ObservedSite, { url }: ObservedReplica): Promise<void> {
  const guessers = [1, 2, 3, 4].map((i) => visitor(url, `198.51.${i}.2`));
  const answers = await times(700, (i) => {
    const guesser = guessers[i % guessers.length] ?? visitor(url, '198.51.100.2');
    return guesser.logIn(`victim-${i}`, `guess ${i}`);
  });
  const limited = answers.filter(({ status }) => status === 429).length;
  expect(700, limited + answers.filter(({ status }) => status === 401).length);
  await site.fire(USUAL, 'LatchkeyLoginGuessing', 'LatchkeyRateLimited');
}

/** Knows a password, and tries codes until the account's budget is used up, and beyond. */
export async function guessedCodes(site: ObservedSite, { url }: ObservedReplica): Promise<void> {
  const { signUp, logIn, completeLogin } = visitor(url, '198.51.100.4');
  const account = anAccount();
  const { user } = await signUp(account);
  await sql(
    site.postgres.url(),
    `WITH codes AS (INSERT INTO recovery_codes VALUES (${user.id}, '\\x00'))
    UPDATE users SET factor_since = now() WHERE id = ${user.id}`,
  );
  const first = (await (await logIn(account.username)).json()) as { login_token: string };
  const answers = await times(40, () => completeLogin(first.login_token, '000000'));
  const limited = answers.filter(({ status }) => status === 429).length;
  expect(40, limited + answers.filter(({ status }) => status === 401).length);
  expect(20, limited);
  await site.fire(USUAL, 'LatchkeyCodesGuessed');
}

export async function fakeTokens(site: ObservedSite, { url }: ObservedReplica): Promise<void> {
  const { signUp, verify } = visitor(url, '198.51.100.3');
  const { signature, unknownKey } = forgedFrom((await signUp()).access_token);
  for (const fake of [signature, unknownKey])
    for (const status of await times(60, () => verify(fake))) expect(401, status);
  await site.fire(USUAL, 'LatchkeyTokensForged');
}

/** Each refresh is repeated at once from another client, as through a backend that is not a trusted proxy. */
export async function heldRefreshes(site: ObservedSite, { url }: ObservedReplica): Promise<void> {
  const { signUp, refresh } = visitor(url, '203.0.113.51');
  const tried = await times(80, async () => {
    const { refresh_token: token } = await signUp();
    await pairFrom(refresh(token, 'Firefox'));
    return (await refresh(token, 'Safari')).status;
  });
  if (!tried.includes(503)) throw new Error('no refresh was told to wait');
  await site.fire(USUAL, 'LatchkeyRefreshesHeld');
}
