// suite: e2e
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { test, type Test } from 'tap';
import { createVerifier } from '../../src/create-verifier.ts';
import { bareEnvironment } from '../../../../test/support/environment.ts';
import { until } from '../../../../test/support/until.ts';

const PROGRAM = new URL('../../src/testing/program.js', import.meta.url).pathname;

async function running(t: Test, ...args: string[]) {
  const child = spawn(process.execPath, [PROGRAM, ...args], { env: bareEnvironment() });
  const exited = once(child, 'exit');
  t.teardown(() => child.kill('SIGKILL'));
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  await until(() => /^LATCHKEY_CLIENT_SECRET=.+\n/m.test(output));
  const env = Object.fromEntries(
    output
      .trim()
      .split('\n')
      .map((line) => line.split('=', 2)),
  ) as Record<string, string>;
  const post = async (path: string, body: unknown) => {
    const init = { method: 'POST', body: typeof body === 'string' ? body : JSON.stringify(body) };
    const response = await fetch(`${env.LATCHKEY_URL}${path}`, init);
    return { status: response.status, body: (await response.json()) as Record<string, string> };
  };
  const end = async () => {
    child.kill('SIGTERM');
    return exited;
  };
  return { env, post, end };
}

test('latchkey-test-issuer prints the agent’s environment, and does what tests ask for', async (t) => {
  const { env, post, end } = await running(t, '--audience', 'shop', '--issuer', 'https://id.example.com');
  t.match(env, {
    LATCHKEY_URL: /^http:\/\/127\.0\.0\.1:\d+$/,
    LATCHKEY_ISSUER: 'https://id.example.com',
    LATCHKEY_AUDIENCE: 'shop',
    LATCHKEY_CLIENT_ID: /^lkc_/,
  });
  const verifier = createVerifier({
    issuer: env.LATCHKEY_ISSUER,
    audience: env.LATCHKEY_AUDIENCE,
    client: { id: env.LATCHKEY_CLIENT_ID, secret: env.LATCHKEY_CLIENT_SECRET },
    url: env.LATCHKEY_URL,
    onError: () => undefined,
  });
  t.teardown(() => verifier.close());
  await verifier.ready();
  const tokenFor = async (body: object) => (await post('/test/tokens', body)).body.token ?? '';
  const isRefused = (token: string) =>
    verifier.verify(token).then(
      () => false,
      (error: unknown) => (error as { reason?: string }).reason === 'revoked',
    );

  const first = await tokenFor({
    user_id: 7,
    roles: ['admin'],
    email_verified: true,
    acr: 'mfa',
    auth_time: 7,
  });
  t.match(await verifier.verify(first), {
    userId: 7,
    roles: ['admin'],
    emailVerified: true,
    claims: { acr: 'mfa', auth_time: 7 },
  });
  const limited = await tokenFor({ user_id: 7, scopes: ['orders:read'], expires_in: 60 });
  t.match(await verifier.verify(limited, { scope: 'orders:read' }), { tokenType: 'limited' });
  t.equal((await post('/test/revocations', { token: first })).status, 200);
  await until(() => isRefused(first));
  const second = await tokenFor({ user_id: 7 });
  t.match(await verifier.verify(second), { userId: 7 });
  t.equal((await post('/test/revocations', { user_id: 7 })).status, 200);
  await until(() => isRefused(second));

  t.equal((await post('/test/outage', { on: true })).status, 200);
  await t.rejects(fetch(`${env.LATCHKEY_URL}/.well-known/jwks.json`), TypeError);
  t.equal((await post('/test/outage', { on: false })).status, 200);
  t.equal((await fetch(`${env.LATCHKEY_URL}/.well-known/jwks.json`)).status, 200);

  const wrong: [path: string, body: unknown, status: number, msg: RegExp][] = [
    ['/test/tokens', '{', 400, /JSON object/],
    ['/test/tokens', [], 400, /JSON object/],
    ['/test/tokens', { user_id: '7' }, 400, /^user_id must be/],
    ['/test/tokens', { user_id: 7, expires_in: 0 }, 400, /^expires_in must be/],
    ['/test/tokens', { userId: 7 }, 400, /userId is unknown: use user_id/],
    ['/test/revocations', {}, 400, /either token or user_id/],
    ['/test/revocations', { token: 'x', user_id: 7 }, 400, /either token or user_id/],
    ['/test/revocations', { token: 'x' }, 400, /not issued/],
    ['/test/outage', { on: 'yes' }, 400, /true or false/],
    ['/test/clock', {}, 404, /POST \/test\/tokens/],
  ];
  for (const [path, body, status, msg] of wrong)
    t.match(await post(path, body), { status, body: { msg } }, `${path} ${JSON.stringify(body)}`);
  t.equal((await fetch(`${env.LATCHKEY_URL}/test/tokens`)).status, 404);
  t.strictSame(await end(), [0, null]);
});

test('latchkey-test-issuer names what is wrong with its arguments', async (t) => {
  const { env } = await running(t);
  const { port } = new URL(env.LATCHKEY_URL ?? '');
  const taken = spawnSync(process.execPath, [PROGRAM, '--port', port], {
    env: bareEnvironment(),
    encoding: 'utf8',
  });
  t.equal(taken.stderr, `latchkey-test-issuer: 127.0.0.1:${port} cannot be listened at: EADDRINUSE\n`);
  t.equal(taken.status, 1);
  for (const [args, message] of [
    [['--port', 'x'], '--port must be a port'],
    [['--issuer', 'id.example.com'], 'issuer must be'],
    [['--user', '7'], "'--user'"],
  ] as const) {
    const { status, stdout, stderr } = spawnSync(process.execPath, [PROGRAM, ...args], {
      env: bareEnvironment(),
      encoding: 'utf8',
    });
    t.equal(status, 1);
    t.equal(stdout, '');
    t.ok(stderr.startsWith('latchkey-test-issuer: '), stderr);
    t.ok(stderr.includes(message), stderr);
    t.match(stderr, /\[--port 0\]/);
  }
});
