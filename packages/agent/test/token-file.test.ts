import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { agentIsReady, startAgent } from './agent.ts';
import { bearer } from '../../../test/support/client.ts';
import { fakeLatchkey } from '../../verifier/test/fake-latchkey.ts';
import { testFolder } from '../../../test/support/folder.ts';
import { until } from '../../../test/support/until.ts';

test('reads the token file at each use, and goes on while the file is empty or refused', async (t) => {
  const fake = await fakeLatchkey(t);
  fake.tokenTtl = 6;
  const file = join(testFolder(t), 'token');
  writeFileSync(file, 'one\n');
  const agent = await startAgent(t, {
    LATCHKEY_URL: fake.url,
    LATCHKEY_AUDIENCE: 'latchkey',
    LATCHKEY_CLIENT_TOKEN_FILE: file,
  });
  await agentIsReady(agent);
  const token = await fake.sign();
  const verify = async () => (await fetch(`${agent.url}/verify`, { headers: bearer(token) })).status;
  const said = (text: string) => agent.lines().some(({ msg }) => String(msg).includes(text));
  t.equal(await verify(), 200);
  t.equal(fake.tokenRequests.at(-1)?.client_assertion, 'one');

  writeFileSync(file, '');
  await until(() => said('LATCHKEY_CLIENT_TOKEN_FILE: client.assertion returned no text'));
  t.equal(await verify(), 200, 'while it is empty');

  writeFileSync(file, 'two');
  await until(() => fake.tokenRequests.some(({ client_assertion: jwt }) => jwt === 'two'));
  t.equal(await verify(), 200, 'with the next one');

  fake.takesAssertion = () => false;
  await until(() => said('LATCHKEY_CLIENT_TOKEN_FILE: /api/auth/token answered 401'));
  t.equal(await verify(), 200, 'while it is refused');
  fake.takesAssertion = (jwt) => jwt === 'three';
  writeFileSync(file, 'three');
  await until(() => fake.tokenRequests.some(({ client_assertion: jwt }) => jwt === 'three'));
  await until(() => fake.readers() === 1);
  t.equal(await verify(), 200);
  t.notMatch(agent.log(), /\b(one|two|three)\b/);
});
