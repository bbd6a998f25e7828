import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { test } from 'tap';
import { bareEnvironment, ready, startService } from './support/service.ts';
import { logLines } from './support/log-lines.ts';
import { toolsMissing } from './support/tools.ts';
import { until } from './support/until.ts';

/** The operations in the order in which the session goes through them. */
const ROUTES = [
  'POST /api/auth/signup',
  'POST /api/auth',
  'GET /api/auth/refresh',
  'GET /api/user',
  'GET /api/auth/verify',
  'POST /api/auth/llt',
  'DELETE /api/auth/llt/:id',
  'DELETE /api/auth',
];

test(
  'the README’s curl session works when it is pasted',
  { skip: toolsMissing('bash', 'curl') },
  async (t) => {
    const script = curlSession();
    t.match(script, 'http://localhost:3000');
    const service = await startService(t);
    await ready(service);

    const shell = spawn('bash', ['-euo', 'pipefail'], {
      env: bareEnvironment({}),
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    let output = '';
    let errors = '';
    shell.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
    shell.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
    shell.stdin.end(script.replaceAll('http://localhost:3000', service.url));
    const [code] = (await once(shell, 'close')) as [number];
    t.equal(code, 0, errors);

    const answers = output
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line) as object);
    t.match(answers, [
      { access_token: String, refresh_token: String, user: { id: Number, username: /^ada-/, name: 'Ada' } },
      { id: Number, tokens: [{ type: 'refresh' }, { type: 'refresh', current: true }] },
      { id: Number, longlived_token: String },
      { msg: String },
      { msg: String },
    ]);
    t.equal(answers.length, 5);
    t.match(output, /^x-auth-token-type: access\r?$/im);

    const requests = () => logLines(service.log()).filter(({ msg }) => msg === 'request');
    await until(() => requests().length >= ROUTES.length);
    t.strictSame(
      requests().map(({ method, route, status }) => `${String(method)} ${String(route)} ${String(status)}`),
      ROUTES.map((route) => `${route} 200`),
    );
  },
);

/** The first block of sh below the heading that speaks of it. */
function curlSession(): string {
  const [, section = ''] = readFileSync('README.md', 'utf8').split(/^#+ .*curl session.*$/im);
  const script = /^```sh\n(.*?)^```$/ms.exec(section)?.[1];
  if (script === undefined) throw new Error('the README has no curl session');
  return script;
}
