import { readdirSync } from 'node:fs';
import { test, type Test } from 'tap';
import { startApache } from '../support/apache.ts';
import { bearer, claimsOf, headerOf, type Pair } from '../support/client.ts';
import { testFolder } from '../support/folder.ts';
import { aSecret } from '../support/keys.ts';
import { latchkey } from '../support/latchkey.ts';
import { refreshOver, signUpOver, verifyOver } from '../support/over-http.ts';
import { testDatabase } from '../support/postgres.ts';
import { freePort } from '../support/free-port.ts';
import { ready, startService } from '../support/service.ts';
import { sql } from '../support/sql.ts';
import { toolsMissing } from '../support/tools.ts';
import { until } from '../support/until.ts';
import { VERIFIERS, type Verifier } from './verifiers.ts';
import '../support/watch-leaks.ts';

/** Seconds; verifiers may cache the JWKS for half of it. */
const LEAD = 6;
const AUDIENCE = 'shop';

/** A service on a key folder that `latchkey keys add` created. */
async function aService(t: Test) {
  const folder = testFolder(t);
  const { url: DATABASE_URL } = await testDatabase(t);
  const port = await freePort();
  const issuer = `http://127.0.0.1:${port}`;
  const env = {
    DATABASE_URL,
    SIGNING_KEYS_DIR: folder,
    KEY_PUBLISH_LEAD: String(LEAD),
    REFRESH_TOKEN_SECRET: aSecret(),
    ISSUER: issuer,
    AUDIENCE,
    PORT: String(port),
  };
  const keys = (...args: string[]) => latchkey(['keys', ...args], env);
  t.match(await keys('add'), { code: 0, stdout: /signs at once/ });
  await ready(await startService(t, env));
  return { folder, issuer, keys, DATABASE_URL };
}

async function refreshed(url: string, pair: Pair): Promise<Pair> {
  const response = await refreshOver(url, pair.refresh_token);
  if (response.status !== 200) throw new Error(`signed out: ${response.status}`);
  return (await response.json()) as Pair;
}

async function cacheMaxAge(issuer: string): Promise<number> {
  const { headers } = await fetch(`${issuer}/.well-known/jwks.json`);
  const [, seconds] = /^public, max-age=(\d+)$/.exec(headers.get('cache-control') ?? '') ?? [];
  return Number(seconds) * 1000;
}

/**
 * Apache answers with a status; this verifier throws unless it is 200. Apache caches the JWKS for a day and fetches it
 * again for an unknown key. It cannot check the issuer, and by default refuses tokens older than ten seconds.
 */
async function apache(t: Test, issuer: string): Promise<Verifier> {
  const options = 'verify.exp=required&verify.iat=skip';
  const server = await startApache(
    t,
    `AuthType oauth2
     OAuth2TokenVerify jwks_uri ${issuer}/.well-known/jwks.json ${options}
     Require valid-user`,
  );
  t.equal((await fetch(server.url)).status, 401, 'Apache admits no request without a token');
  return async (token) => {
    const { status } = await fetch(server.url, { headers: bearer(token) });
    if (status !== 200) throw new Error(`Apache says ${status}: ${server.errors()}`);
    return claimsOf(token);
  };
}

/** Tokens that every verifier must refuse. */
function forgeries(token: string): string[] {
  const [header = '', claims = '', signature = ''] = token.split('.');
  const other = Buffer.from(JSON.stringify({ ...claimsOf(token), sub: '999' })).toString('base64url');
  return [`${header}.${other}.${signature}`, `${header}.${claims}.${signature.split('').reverse().join('')}`];
}

const apacheMissing = toolsMissing('apache2', 'bash');

test('independent verifiers accept every token during a key change, and no user is signed out', async (t) => {
  const { folder, issuer, keys, DATABASE_URL } = await aService(t);
  const maxAge = await cacheMaxAge(issuer);
  t.equal(maxAge, (LEAD / 2) * 1000);
  const about = { issuer, audience: AUDIENCE, maxAge };
  const verifiers = Object.fromEntries(Object.entries(VERIFIERS).map(([name, make]) => [name, make(about)]));
  if (!apacheMissing) verifiers.mod_oauth2 = await apache(t, issuer);
  await t.test('Apache with mod_oauth2 accepts every token too', { skip: apacheMissing }, (t) => {
    t.end();
  });
  const accepted = async (pair: Pair, when: string) => {
    for (const [name, verify] of Object.entries(verifiers)) {
      const { sub } = await verify(pair.access_token).catch((error: unknown) => ({ sub: String(error) }));
      t.equal(sub, String(pair.user.id), `${name}, ${when}`);
    }
  };

  const old = await signUpOver(issuer);
  const { kid } = headerOf(old.access_token);
  await accepted(old, 'a token of the first key');
  for (const forged of forgeries(old.access_token)) {
    for (const [name, verify] of Object.entries(verifiers)) await t.rejects(verify(forged), name);
  }

  t.match(await keys('add', '--alg', 'RS256'), { code: 0, stdout: /signs 6 s after/ });
  // Before, during and after the change, every verifier accepts a new token, even if it caches the JWKS as long
  // as allowed.
  let pair = old;
  while (headerOf(pair.access_token).kid === kid) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    pair = await refreshed(issuer, pair);
    await accepted(pair, `signed with ${String(headerOf(pair.access_token).kid)}`);
  }
  t.equal(headerOf(pair.access_token).alg, 'RS256');
  await accepted({ ...old }, 'a token of the first key after the change');
  t.equal(await verifyOver(issuer, pair.access_token), 200);

  const listed = JSON.parse((await keys('list', '--json')).stdout) as {
    keys: { kid: string; state: string }[];
  };
  t.match(listed.keys, [
    { kid: headerOf(pair.access_token).kid, state: 'signing' },
    { kid, state: 'verifying' },
  ]);
  t.match(await keys('retire', String(kid)), {
    code: 1,
    stderr: /may be good until .*Z: it can be retired from/,
  });
  t.equal(readdirSync(folder).length, 2);
  await sql(
    DATABASE_URL,
    "UPDATE signing_keys SET signs_since = signs_since - interval '1 hour', signed_at = NULL",
  );
  t.match(await keys('retire', String(kid)), { code: 0, stdout: /^removed / });
  await until(
    async () =>
      ((await (await fetch(`${issuer}/.well-known/jwks.json`)).json()) as { keys: unknown[] }).keys.length ===
      1,
  );
  pair = await refreshed(issuer, pair);
  await accepted(pair, 'after the first key has gone');
});
