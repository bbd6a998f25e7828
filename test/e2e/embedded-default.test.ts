import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'tap';
import { anAccount } from '../support/client.ts';
import { logInOver, refreshOver, signUpOver, verifyOver } from '../support/over-http.ts';
import { failedStart, ready, startService } from '../support/service.ts';

test('the embedded default keeps its data, and is not started twice', async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'latchkey-e2e-'));
  t.teardown(() => {
    rmSync(dataDir, { recursive: true, force: true });
  });
  const first = await startService(t, { DATA_DIR: dataDir });
  await ready(first);
  const account = anAccount();
  const pair = await signUpOver(first.url, account);

  const { code, stderr } = await failedStart(t, { DATA_DIR: dataDir });
  t.equal(code, 1);
  t.match(stderr, dataDir, 'it says which folder is in use');
  t.notMatch(stderr, /^\s+at /m, 'and shows no stack');
  t.equal(await verifyOver(first.url, pair.access_token), 200, 'the first does not mind');
  t.equal(await first.stop('SIGINT'), 0);

  const second = await startService(t, { DATA_DIR: dataDir });
  await ready(second);
  t.equal(await verifyOver(second.url, pair.access_token), 200, 'the same keys, the same sessions');
  t.equal((await refreshOver(second.url, pair.refresh_token)).status, 200);
  t.equal((await logInOver(second.url, account.username, account.password)).status, 200);
  t.equal(await second.stop(), 0);
});
