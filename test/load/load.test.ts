// suite: e2e
import { spawnSync } from 'node:child_process';
import { test } from 'tap';
import { bareEnvironment } from '../support/environment.ts';

const LOAD = new URL('./load.js', import.meta.url).pathname;

function load(words: string[], env: Record<string, string> = {}) {
  return spawnSync(process.execPath, [LOAD, ...words], { env: bareEnvironment(env), encoding: 'utf8' });
}

test('the usage begins with what only the repository can', (t) => {
  t.match(load(['--help']), { status: 0, stdout: /^npm run load -- SCENARIO[^]*\nlatchkey-load SCENARIO/ });
  t.match(load(['no-such-scenario']), { status: 2, stderr: /herd[^]*\n\nnpm run load -- SCENARIO/ });
  t.end();
});

test('seed refuses production', (t) => {
  const { status, stderr } = load(['seed', '--users', '10'], { NODE_ENV: 'production' });
  t.equal(status, 1);
  t.match(stderr, 'NODE_ENV is production');
  t.end();
});
