import { test } from 'tap';
import { limited, makeLog } from '../src/log.ts';
import { startAgent } from './agent.ts';
import { fakeLatchkey } from '../../verifier/test/fake-latchkey.ts';

test('at most ten lines a second, and the next one counts those that were left out', (t) => {
  const lines: object[] = [];
  let now = 0;
  const log = limited(
    makeLog((line) => lines.push(JSON.parse(line) as object)),
    () => now,
  );
  for (let i = 0; i < 15; i++) log('info', 'refused', { code: 'invalid_token' });
  t.equal(lines.length, 10);
  now = 999;
  log('info', 'refused');
  t.equal(lines.length, 10);
  now = 1000;
  for (let i = 0; i < 2; i++) log('info', 'refused', { code: 'invalid_token' });
  t.match(lines.slice(10), [
    { level: 'info', msg: 'refused', code: 'invalid_token', omitted: 6 },
    { msg: 'refused' },
  ]);
  t.notMatch(lines[11], { omitted: Number });
  t.end();
});

test('the agent goes on when the reader of its log ends', async (t) => {
  const { url, client } = await fakeLatchkey(t);
  const agent = await startAgent(t, {
    LATCHKEY_URL: url,
    LATCHKEY_AUDIENCE: 'latchkey',
    LATCHKEY_CLIENT_ID: client.id,
    LATCHKEY_CLIENT_SECRET: client.secret,
  });
  agent.stopReading();
  // Each refusal is a line of the log.
  for (let i = 0; i < 3; i++) t.equal((await fetch(`${agent.url}/verify`)).status, 401);
});
