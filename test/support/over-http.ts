import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import { anAccount, bearer, type Pair } from './client.ts';

/** How often a client tries again if the service asks it to come back. */
const RETRIES = 10;

/** Requests that many tests of whole processes share. A busy machine may need more than one try. */
export async function signUpOver(url: string, account: object = anAccount()): Promise<Pair> {
  for (let left = RETRIES; ; left--) {
    const response = await fetch(`${url}/api/auth/signup`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(account),
    });
    if (response.status === 200) return (await response.json()) as Pair;
    const problem = await response.text();
    if (response.status !== 503 || left === 0) throw new Error(`no pair: ${response.status} ${problem}`);
    await sleep(1000 * Number(response.headers.get('retry-after')));
  }
}

export async function logInOver(url: string, username: string, password: string): Promise<Response> {
  return fetch(`${url}/api/auth`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ username, password }),
  });
}

export async function verifyOver(url: string, token: string): Promise<number> {
  return (await fetch(`${url}/api/auth/verify`, { headers: bearer(token) })).status;
}

export async function refreshOver(url: string, token: string): Promise<Response> {
  return fetch(`${url}/api/auth/refresh`, { headers: bearer(token) });
}

export async function logOutOver(url: string, token: string): Promise<number> {
  return (await fetch(`${url}/api/auth`, { method: 'DELETE', headers: bearer(token) })).status;
}

export async function createLongLivedOver(url: string, token: string) {
  const response = await fetch(`${url}/api/auth/llt`, {
    method: 'POST',
    headers: { ...bearer(token), 'content-type': 'application/json' },
    body: JSON.stringify({ device: 'Kitchen tablet' }),
  });
  if (response.status !== 200) throw new Error(`no long-lived token: ${await response.text()}`);
  return (await response.json()) as { id: number; longlived_token: string };
}

export async function createLimitedOver(url: string, token: string, scopes: readonly string[]) {
  const response = await fetch(`${url}/api/user/tokens`, {
    method: 'POST',
    headers: { ...bearer(token), 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'Kitchen tablet', scopes }),
  });
  if (response.status !== 200) throw new Error(`no limited token: ${await response.text()}`);
  return (await response.json()) as { id: number; token: string };
}

/** Runs all six operations, and checks the effect of each by verify. */
export async function sixOperationsOver(t: Test, url: string): Promise<void> {
  const account = anAccount();
  await signUpOver(url, account);
  const loggedIn = (await (await logInOver(url, account.username, account.password)).json()) as Pair;
  t.equal(await verifyOver(url, loggedIn.access_token), 200, 'logged in');
  const { access_token: access } = (await (await refreshOver(url, loggedIn.refresh_token)).json()) as Pair;
  t.equal(await verifyOver(url, access), 200, 'refreshed');
  t.equal(await verifyOver(url, loggedIn.access_token), 401, 'the previous pair has ended');

  const { id, longlived_token: longLived } = await createLongLivedOver(url, access);
  t.equal(await verifyOver(url, longLived), 200, 'a long-lived token created');
  const deleted = await fetch(`${url}/api/auth/llt/${id}`, { method: 'DELETE', headers: bearer(access) });
  t.equal(deleted.status, 200);
  t.equal(await verifyOver(url, longLived), 401, 'and deleted');

  t.equal(await logOutOver(url, access), 200);
  t.equal(await verifyOver(url, access), 401, 'logged out');
}
