import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { buildTestApp, type TestApp } from '../../support/app.ts';
import { call, headerOf, pairOf, refresh, signUp, verify } from '../../support/client.ts';
import { aSecret, KEYS, withKeys } from '../../support/keys.ts';
import { refused } from '../../support/problem.ts';
import { until } from '../../support/until.ts';

test('a signing key is added, takes over and is removed, without a restart or sign-out', async (t) => {
  const { target, folder } = await withKeys(t);
  const old = await signUp(target);
  const kid = headerOf(old.access_token).kid;

  writeFileSync(join(folder, '0000.pem'), KEYS.EdDSA());
  await reloaded(target, (keys) => keys.signing.length === 2);
  t.equal(headerOf((await signUp(target)).access_token).kid, kid, 'a lower name does not sign');

  writeFileSync(join(folder, '0002.pem'), KEYS.ES256());
  await reloaded(target, (keys) => keys.signing.length === 3 && keys.signing[0]?.kid !== kid);
  const next = await signUp(target);
  t.not(headerOf(next.access_token).kid, kid, 'the highest name signs');
  t.equal((await verify(target, old.access_token)).statusCode, 200, 'the old token is valid');

  rmSync(join(folder, '0001.pem'));
  await reloaded(target, (keys) => keys.signing.length === 2);
  refused(t, await verify(target, old.access_token), 401, 'invalid_token');
  t.equal((await verify(target, next.access_token)).statusCode, 200);
  const refreshed = pairOf(await refresh(target, old.refresh_token));
  t.equal((await verify(target, refreshed.access_token)).statusCode, 200, 'the session goes on');
});

test('a refresh secret is added, takes over and is removed, and an invalid one changes nothing', async (t) => {
  const { target, secret, secretFile } = await withKeys(t);
  const [first, second] = [await signUp(target), await signUp(target)];
  const next = aSecret();
  const kid = headerOf(first.refresh_token).kid;

  writeFileSync(secretFile, `${secret},${next}\n`);
  await reloaded(target, (keys) => keys.refresh.length === 2);
  t.equal(headerOf((await signUp(target)).refresh_token).kid, kid, 'the first signs');
  writeFileSync(secretFile, `${next},${secret}\n`);
  await reloaded(target, (keys) => keys.refresh[0]?.kid !== kid);
  const renewed = pairOf(await refresh(target, first.refresh_token));
  t.not(headerOf(renewed.refresh_token).kid, kid);

  writeFileSync(secretFile, 'too short');
  await until(async () => {
    await target.composition.app.keyRing.reload();
    return target.log().includes('cannot load the keys');
  });
  t.notMatch(target.log(), 'too short');
  rmSync(secretFile);
  await until(async () => {
    await target.composition.app.keyRing.reload();
    return target.log().includes('REFRESH_TOKEN_SECRET_FILE cannot be read (ENOENT)');
  });
  t.equal((await verify(target, (await signUp(target)).access_token)).statusCode, 200);

  writeFileSync(secretFile, next);
  await reloaded(target, (keys) => keys.refresh.length === 1);
  refused(t, await refresh(target, second.refresh_token), 401, 'invalid_token');
  t.equal((await refresh(target, renewed.refresh_token)).statusCode, 200);
});

test('a token is not called invalid while the file of its key may be one that cannot be read', async (t) => {
  const [{ target, folder, secretFile }, { target: other }] = [await withKeys(t), await withKeys(t)];
  const { user } = await signUp(target);
  const { access_token: access, refresh_token: token } = await signUp(other);
  rmSync(secretFile);
  await reloaded(target, () => target.composition.app.keyRing.isIncomplete('refresh'));
  refused(t, await refresh(target, token), 503, 'unavailable');
  refused(t, await verify(target, access), 401, 'invalid_token');
  const payload = { username: user.username, password: 'difference engine' };
  t.equal((await call(target, 'POST /api/auth', { token, payload })).statusCode, 200);
  mkdirSync(join(folder, '0002.pem'));
  await reloaded(target, () => target.composition.app.keyRing.isIncomplete('signing'));
  refused(t, await verify(target, access), 503, 'unavailable');
});

test('a token signed by a key added just now is valid at once', async (t) => {
  const { target, folder, secretFile } = await withKeys(t);
  writeFileSync(join(folder, '0002.pem'), KEYS.ES256());
  const replica = await buildTestApp(t, {
    databaseUrl: target.databaseUrl,
    env: { SIGNING_KEYS_DIR: folder, REFRESH_TOKEN_SECRET_FILE: secretFile },
  });
  const { access_token: token } = await signUp(replica);
  t.equal((await call(target, 'GET /api/user', { token })).statusCode, 200);
});

type KeySet = ReturnType<TestApp['composition']['app']['keyRing']['current']>;

async function reloaded({ composition }: TestApp, done: (keys: KeySet) => boolean): Promise<void> {
  const { keyRing } = composition.app;
  await until(async () => done(await keyRing.reload()));
}
