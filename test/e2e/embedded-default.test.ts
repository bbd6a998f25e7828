// suite: core
import { test } from 'tap';
import { anAccount } from '../support/client.ts';
import { testFolder } from '../support/folder.ts';
import { latchkey } from '../support/latchkey.ts';
import { logInOver, refreshOver, signUpOver, verifyOver } from '../support/over-http.ts';
import { failedStart, ready, startService } from '../support/service.ts';
import '../support/watch-leaks.ts';

test('the embedded default keeps its data, and cannot be started twice', async (t) => {
  const dataDir = testFolder(t);
  const first = await startService(t, { DATA_DIR: dataDir });
  await ready(first);
  const account = anAccount();
  const pair = await signUpOver(first.url, account);

  const { code, stderr } = await failedStart(t, { DATA_DIR: dataDir });
  t.equal(code, 1);
  t.match(stderr, dataDir, 'names the folder in use');
  t.notMatch(stderr, /^\s+at /m, 'shows no stack');
  t.equal(await verifyOver(first.url, pair.access_token), 200, 'the first is not affected');
  t.equal(await first.stop('SIGINT'), 0);

  const second = await startService(t, { DATA_DIR: dataDir });
  await ready(second);
  t.equal(await verifyOver(second.url, pair.access_token), 200, 'same keys, same sessions');
  t.equal((await refreshOver(second.url, pair.refresh_token)).status, 200);
  t.equal((await logInOver(second.url, account.username, account.password)).status, 200);
  t.equal(await second.stop(), 0);
});

test('operators’ commands work on the embedded default, with and without a running service', async (t) => {
  const dataDir = testFolder(t);
  const env = { DATA_DIR: dataDir };
  t.match(await latchkey(['client', 'list'], env), { code: 0, stdout: 'there are no clients\n', stderr: '' });
  const service = await startService(t, env);
  await ready(service);
  const account = anAccount();
  const { access_token } = await signUpOver(service.url, account);
  const created = await latchkey(['client', 'create', 'billing', '--json'], env);
  t.equal(created.code, 0, created.stderr);
  const { client_id, client_secret } = JSON.parse(created.stdout) as Record<string, string>;
  const introspected = await fetch(`${service.url}/api/auth/introspect`, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa(`${client_id}:${client_secret}`)}` },
    body: new URLSearchParams({ token: access_token }),
  });
  t.match(await introspected.json(), { active: true, username: account.username });
  t.match(await latchkey(['migrate'], env), { code: 0, stdout: 'nothing to apply\n' });
  t.match(await latchkey(['keys', 'list'], env), { code: 0, stdout: /signing/ });
  t.equal(await verifyOver(service.url, access_token), 200, 'the service is not affected');
  t.equal(await service.stop(), 0);

  const tokens = await latchkey(['user', 'tokens', account.username, '--json'], env);
  t.match(JSON.parse(tokens.stdout), { tokens: [{ type: 'refresh' }] });
  t.match(await latchkey(['purge'], env), { code: 0, stdout: 'purged 0 records\n' });
});
