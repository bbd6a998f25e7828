import { anAccount, bearer, type Pair } from './client.ts';

/** The few requests that tests of whole processes make again and again. */
export async function signUpOver(url: string, account: object = anAccount()): Promise<Pair> {
  const response = await fetch(`${url}/api/auth/signup`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(account),
  });
  if (response.status !== 200) throw new Error(`no pair: ${response.status} ${await response.text()}`);
  return (await response.json()) as Pair;
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
