import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { test } from 'tap';
import type { Environment } from '../src/config.ts';
import { bareEnvironment, ready, startService } from './support/service.ts';
import { logLines } from './support/log-lines.ts';
import { testDatabase } from './support/postgres.ts';
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

    const { code, output, errors } = await paste(script.replaceAll('http://localhost:3000', service.url));
    t.equal(code, 0, errors);

    const answers = answersIn(output);
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

test('the README’s snippets for proxies stand in the files that are tested', (t) => {
  const [, section = ''] = readFileSync('README.md', 'utf8').split('## In front of your services\n');
  const blocks =
    section.split(/^## /m)[0]?.matchAll(/\]\((deploy\/[^)]+)\)(?:(?!```)[^])*```\w+\n([^]*?)```/g) ?? [];
  const compared: string[] = [];
  for (const [, file = '', snippet = ''] of blocks) {
    t.ok(unindented(readFileSync(file, 'utf8')).includes(unindented(snippet)), file);
    compared.push(file.split('/')[1] ?? '');
  }
  t.strictSame(compared, ['nginx', 'caddy', 'traefik', 'envoy']);
  t.end();
});

function unindented(text: string): string {
  return text.replaceAll(/^[ \t]+/gm, '');
}

test(
  'what the README has for other services works when it is pasted after that',
  { skip: toolsMissing('bash', 'curl') },
  async (t) => {
    const { url: DATABASE_URL } = await testDatabase(t);
    const service = await startService(t, { DATABASE_URL });
    await ready(service);
    const cli = new URL('../src/cli.js', import.meta.url).pathname;
    const script = (curlSession() + blockBelow(/^## For other services$/m))
      .replaceAll('http://localhost:3000', service.url)
      .replace('npx latchkey', `'${process.execPath}' '${cli}'`);
    const { code, output, errors } = await paste(script, { DATABASE_URL });
    t.equal(code, 0, errors);
    t.match(answersIn(output).slice(-2), [
      { active: true, token_use: 'access', username: /^ada-/ },
      { active: false },
    ]);
  },
);

/** What a shell makes of it. */
async function paste(script: string, env: Environment = {}) {
  const shell = spawn('bash', ['-euo', 'pipefail'], {
    env: bareEnvironment(env),
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let output = '';
  let errors = '';
  shell.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  shell.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  shell.stdin.end(script);
  const [code] = (await once(shell, 'close')) as [number];
  return { code, output, errors };
}

function answersIn(output: string): object[] {
  return output
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as object);
}

function curlSession(): string {
  return blockBelow(/^#+ .*curl session.*$/im);
}

/** The first block of sh below a heading. */
function blockBelow(heading: RegExp): string {
  const [, section = ''] = readFileSync('README.md', 'utf8').split(heading);
  const script = /^```sh\n(.*?)^```$/ms.exec(section)?.[1];
  if (script === undefined) throw new Error(`the README has no block below ${heading.source}`);
  return script;
}
