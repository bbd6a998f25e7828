import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import type { Report } from '../../packages/load/src/report.ts';
import { helm } from '../k8s/chart.ts';
import { readManifests } from '../k8s/render.ts';
import { strictly } from '../k8s/strict.ts';
import type { Pair } from '../support/client.ts';
import { containers, ended, podmanEnvironment } from '../support/container.ts';
import { readDocument } from '../support/documents.ts';
import { forward, startEmulatedProxy, valuesOf } from './emulated-proxy.ts';
import { bareEnvironment } from '../support/environment.ts';
import { testFolder } from '../support/folder.ts';
import { freePort } from '../support/free-port.ts';
import { containerReady, evaluate, keyFolder } from '../support/image.ts';
import { readBlocks } from '../support/markdown.ts';
import { logOutOver, refreshOver, signUpOver, verifyOver } from '../support/over-http.ts';
import { packedLoad } from '../support/packed-packages.ts';
import { testDatabase } from '../support/postgres.ts';
import { testRedis } from '../support/redis.ts';
import { toolsMissing } from '../support/tools.ts';

const ISSUER = 'https://auth.example.com';
const REPLICAS = ['127.0.0.1', '127.0.0.2'];

/** The path of a new user who has only the folder of a release: docs/installing.md, "From a release". */
export async function followFolder(t: Test, folder: string, version: string): Promise<void> {
  const skip = toolsMissing('helm');
  await t.test('its chart installs its image, and each object matches its type', { skip }, async (t) => {
    const archive = join(folder, `latchkey-chart-${version}.tgz`);
    const values = `config.ISSUER=${ISSUER},image.repository=registry.example.com/latchkey`;
    const { status, stdout, stderr } = helm('template', 'latchkey', archive, '--set', values);
    t.equal(status, 0, stderr);
    const images = [...stdout.matchAll(/\bimage: (.*)/g)].map(([, image = '']) => image.replaceAll('"', ''));
    t.strictSame([...new Set(images)], [`registry.example.com/latchkey:${version}`]);
    const manifests = readManifests(stdout);
    t.ok(manifests.some(({ kind }) => kind === 'Deployment'));
    for (const [i, problems] of (await strictly(t, manifests)).entries())
      t.strictSame(problems, [], manifests[i]?.kind ?? '');
  });

  const { engine, urls } = await startReplicas(t, folder, version);
  const [one = '', two = ''] = urls;

  await t.test('its image serves a session from two replicas', async (t) => {
    const first = await signUpOver(one);
    const pair = (await (await refreshOver(two, first.refresh_token)).json()) as Pair;
    t.equal(await verifyOver(one, pair.access_token), 200);
    t.equal(await verifyOver(one, first.access_token), 401, 'the refresh at the other one ended it');
    t.equal(await logOutOver(two, pair.access_token), 200);
    t.equal(await verifyOver(one, pair.access_token), 401);
    const status = `require('fs').readFileSync('/proc/1/status', 'utf8')`;
    t.match(
      await evaluate<string>(engine, 'latchkey-2', status),
      /^CapBnd:\t0+\nCapAmb:\t0+\nNoNewPrivs:\t1$/m,
    );
    const mounts = `require('fs').readFileSync('/proc/mounts', 'utf8')`;
    t.match(await evaluate<string>(engine, 'latchkey-2', mounts), /^\S+ \/ \S+ ro,/m);
  });

  await t.test('its load kit judges them, and a proxy that lets ended tokens through', async (t) => {
    const words = ['node', 'dist/src/cli.js', 'client', 'create', 'load-test', '--may', 'users.write'];
    const { output } = await engine.podman('exec', 'latchkey-1', ...words);
    const [LATCHKEY_CLIENT_ID, LATCHKEY_CLIENT_SECRET] = ['id', 'secret'].map(
      (name) => new RegExp(`^client_${name} +(\\S+)$`, 'm').exec(output)?.[1],
    );
    const program = packedLoad(t, join(folder, `latchkey-load-${version}.tgz`));
    const run = (url: string) => load(t, program, url, { LATCHKEY_CLIENT_ID, LATCHKEY_CLIENT_SECRET });

    const good = await run(await startFront(t, urls));
    t.equal(good.code, 0, good.output);
    t.strictSame(Object.values(good.report().correctness), [0, 0, 0, 0, 0]);
    for (const count of Object.values(good.report().judged)) t.ok(count > 0, 'all was judged');

    const bad = await run(await startFront(t, urls, { acceptsEnded: true }));
    t.equal(bad.code, 1, bad.output);
    t.ok(bad.report().correctness.revoked_accepted > 0);
  });
}

/** Runs the document's commands in the folder, with the stores of the test, in a podman without any image. */
async function startReplicas(t: Test, folder: string, version: string) {
  const [database, redis] = [await testDatabase(t, { migrated: false }), testRedis(t)];
  const [port, opsPort] = [await freePort(), await freePort()];
  const conf = keyFolder(t);
  writeFileSync(join(conf, 'owner.env'), `DATABASE_URL=${database.url}\n`);
  const settings = {
    ISSUER,
    DATABASE_URL: database.url,
    REDIS_URL: redis.url,
    REDIS_PREFIX: redis.prefix,
    PORT: port,
    OPS_PORT: opsPort,
    RATE_LIMIT_ALLOW: '127.0.0.0/8',
    SIGNING_KEYS_DIR: '/etc/latchkey/signing',
    REFRESH_TOKEN_SECRET_FILE: '/etc/latchkey/refresh-token-secret',
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}\n`);
  writeFileSync(join(conf, 'service.env'), lines.join(''));

  const env = podmanEnvironment(t, testFolder(t));
  const engine = containers(t, `localhost/latchkey:${version}`, env);
  t.teardown(() => engine.podman('rm', '--force', '--all', '--time', '0'));
  const { code, output } = await ended(
    spawn('bash', ['-euc', documented(conf, version)], {
      cwd: folder,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    }),
  );
  t.equal(code, 0, output);
  t.match(output, /^applied /m);
  for (const [i, host] of REPLICAS.entries())
    await containerReady(engine, `latchkey-${i + 1}`, opsPort, host);
  return { engine, urls: REPLICAS.map((host) => `http://${host}:${port}`) };
}

/** The document's commands, for a machine where containers have no network of their own. */
function documented(conf: string, version: string): string {
  const blocks = readBlocks(readDocument('docs/installing.md'));
  const { text = '' } = blocks.find(({ section }) => section === 'From a release') ?? {};
  return text
    .replaceAll('1.0.0', version)
    .replace(/^useradd .*$/m, '')
    .replace('"$(id -u latchkey):$(id -g latchkey)"', '1000:1000')
    .replaceAll('--volume /etc/latchkey:', `--network host --volume ${conf}:`)
    .replaceAll('--env-file /etc/latchkey', `--env-file ${conf}`)
    .replace('--publish "127.0.0.$1:3000:3000"', '--env "HOST=127.0.0.$1"')
    .replace('--publish "127.0.0.$1:9464:9464"', '--env "OPS_HOST=127.0.0.$1"');
}

/** A proxy that sends each request to the next replica. */
async function startFront(t: Test, urls: readonly string[], { acceptsEnded = false } = {}): Promise<string> {
  let count = 0;
  const { url } = await startEmulatedProxy(t, async (message) => {
    const reply = await forward(urls[count++ % urls.length] ?? '', message);
    const hasToken = valuesOf(message.headers, 'authorization').length > 0;
    const isRefused = hasToken && message.path === '/api/auth/verify' && reply.status === 401;
    return acceptsEnded && isRefused ? { ...reply, status: 200 } : reply;
  });
  return url;
}

/** A short run of the kit in an empty folder. */
async function load(t: Test, program: string, url: string, env: Record<string, string | undefined>) {
  const cwd = testFolder(t);
  const small = ['--users', '10', '--rate', '50', '--seconds', '4', '--url', url];
  const child = spawn(process.execPath, [program, 'mixed-day', ...small], {
    cwd,
    env: bareEnvironment(env),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const { code, output } = await ended(child);
  const report = () => JSON.parse(readFileSync(join(cwd, 'reports/load/report.json'), 'utf8')) as Report;
  return { code, output, report };
}
