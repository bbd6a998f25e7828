import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { test, type Test } from 'tap';
import { isAlive, onlyLinux, postmaster } from '../support/embedded.ts';
import { bareEnvironment } from '../support/environment.ts';
import { testFolder } from '../support/folder.ts';
import { toolsMissing } from '../support/tools.ts';
import { until } from '../support/until.ts';

const ROOT = new URL('../../../', import.meta.url).pathname;

test(
  'a SIGTERM to npm ends the service and its database, whether or not sh forwards signals',
  { skip: onlyLinux || toolsMissing('npm', 'bash') },
  async (t) => {
    for (const shell of ['sh', 'bash']) {
      const project = aProject(t, shell);
      const { npm, lines, ended, closed, url, database, pid } = await started(t, project);
      t.ok(isAlive(pid) && isAlive(database), `${shell}: both run`);
      t.equal((await fetch(`${url}/.well-known/jwks.json`)).status, 200);

      npm.kill('SIGTERM');
      await ended;
      await until(() => !isAlive(pid));
      await closed;
      t.ok(lines.at(-1)?.includes('"msg":"stopped"'), `${shell}: it drained: ${lines.at(-1)}`);
      t.notOk(isAlive(database), `${shell}: the database ended with it`);
    }
  },
);

test(
  'without development dependencies npm start builds the service, which serves or names missing settings',
  { skip: onlyLinux || toolsMissing('npm') },
  async (t) => {
    const project = withoutDevelopmentDependencies(t);
    // A newcomer's shell may set it.
    const refused = spawnSync('npm', ['start'], {
      cwd: project,
      encoding: 'utf8',
      env: npmEnvironment({ NODE_ENV: 'production' }),
    });
    t.equal(refused.status, 1);
    t.match(refused.stderr, 'DATABASE_URL is required in production');
    t.notMatch(refused.stdout + refused.stderr, /error TS|failed:/);
    t.notOk(existsSync(join(project, 'dist/test')));

    const { npm, ended, closed, url, pid } = await started(t, project);
    t.equal((await fetch(`${url}/.well-known/jwks.json`)).status, 200);
    npm.kill('SIGTERM');
    await ended;
    await until(() => !isAlive(pid));
    await closed;

    await t.test('a build writes the revision of its own repository, or the one given', (t) => {
      const revision = () => readFileSync(join(project, 'dist/src/revision'), 'utf8');
      const options = (env = {}) => ({ cwd: project, encoding: 'utf8' as const, env: npmEnvironment(env) });
      const build = (env = {}) => spawnSync(process.execPath, ['scripts/build.mjs'], options(env));
      t.equal(revision(), 'unknown\n', 'no repository');
      t.match(build({ REVISION: 'v1.2-3_a' }), { status: 0 });
      t.equal(revision(), 'v1.2-3_a\n');
      for (const REVISION of ['two\nlines', 'x'.repeat(65)])
        t.match(build({ REVISION }), { status: 1, stderr: /^REVISION is not a commit/ });
      const author = ['-c', 'user.name=A', '-c', 'user.email=a@example.com'];
      for (const args of [
        ['init'],
        ['add', 'package.json'],
        [...author, 'commit', '-m', 'All'],
        ['tag', 'v1'],
      ])
        t.match(spawnSync('git', args, options()), { status: 0 });
      build();
      t.match(revision(), /^[0-9a-f]{40}\n$/);
      writeFileSync(join(project, 'package.json'), ` ${readFileSync(join(project, 'package.json'), 'utf8')}`);
      build();
      t.match(revision(), /^[0-9a-f]{40}-dirty\n$/);
      t.end();
    });

    // `--omit=optional` leaves out the native compiler that `typescript` starts.
    rmSync(join(project, 'node_modules/@typescript'), { recursive: true });
    rmSync(join(project, 'dist/.steps/service'));
    const build = [join(project, 'scripts/build.mjs')];
    t.match(spawnSync(process.execPath, build, { encoding: 'utf8', env: npmEnvironment({}) }), {
      status: 1,
      stderr: /^building\ntsc is not installed, .*--omit=optional\n$/,
    });
  },
);

test(
  'npm start -- --seed takes a file relative to the caller, and refuses other words',
  { skip: onlyLinux || toolsMissing('npm') },
  async (t) => {
    const project = aProject(t, 'sh');
    const team = join(project, 'team');
    mkdirSync(team);
    const user = { username: 'ada', email: 'ada@example.com', password: 'difference engine' };
    writeFileSync(join(team, 'seed.json'), JSON.stringify({ users: [user] }));
    const refused = (...words: string[]) => {
      const options = { cwd: team, encoding: 'utf8', env: npmEnvironment({}) } as const;
      const { status, stderr } = spawnSync('npm', ['start', '--', ...words], options);
      return { status, stderr };
    };
    t.match(refused('--seed', 'missing.json'), { status: 1, stderr: 'SEED_FILE: cannot be read (ENOENT)' });
    for (const words of [['--seed'], ['--sed', 'seed.json'], ['seed.json']])
      t.match(refused(...words), { status: 2, stderr: /use npm start, or npm start -- --seed FILE/ });

    const { npm, ended, closed, url, pid } = await started(t, project, team, '--seed', 'seed.json');
    const login = await fetch(`${url}/api/auth`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ username: user.username, password: user.password }),
    });
    t.equal(login.status, 200);
    npm.kill('SIGTERM');
    await ended;
    await until(() => !isAlive(pid));
    await closed;
  },
);

function npmEnvironment(settings: Record<string, string>) {
  return bareEnvironment({ ...settings, npm_config_userconfig: '/dev/null' });
}

/** `npm start` in the project's folder or one below it, once it serves. */
async function started(t: Test, project: string, cwd = project, ...words: string[]) {
  const npm = spawn('npm', ['start', '--', ...words], {
    cwd,
    env: npmEnvironment({
      PORT: '0',
      OPS_PORT: '0',
      DRAIN_DELAY: '0',
      SCRYPT_LOG_N: '4',
      DATA_DIR: join(project, '.data'),
    }),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const lines: string[] = [];
  const output = createInterface({ input: npm.stdout }).on('line', (line) => lines.push(line));
  const closed = once(output, 'close');
  const ended = once(npm, 'exit');
  const serving = () => lines.find((line) => line.includes('"msg":"serving"'));
  await until(() => serving() !== undefined || npm.exitCode !== null);
  const { url } = JSON.parse(serving() ?? '{}') as { url: string };
  const database = postmaster(join(project, '.data'));
  const pid = parentOf(database);
  t.teardown(() => {
    if (isAlive(pid)) process.kill(pid, 'SIGTERM');
  });
  return { npm, lines, ended, closed, url, database, pid };
}

/** The process that started this one. */
function parentOf(pid: number): number {
  return Number(/^PPid:\t(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
}

/**
 * The project's sources in a new folder, with links to the packages that `npm ci --omit=dev` installs. The lock file
 * names them; .ci/run installs them for real.
 */
function withoutDevelopmentDependencies(t: Test): string {
  const folder = testFolder(t);
  const parts = [
    'package.json',
    'packages/agent/package.json',
    'packages/verifier/package.json',
    'prisma',
    'prisma.config.ts',
    'scripts',
    'tsconfig.json',
    'tsconfig.service.json',
  ];
  for (const part of parts) cpSync(join(ROOT, part), join(folder, part), { recursive: true });
  const generated = join(ROOT, 'src/generated');
  cpSync(join(ROOT, 'src'), join(folder, 'src'), { recursive: true, filter: (path) => path !== generated });

  type Packages = Record<string, { dev?: boolean }>;
  const lock = readFileSync(join(ROOT, 'package-lock.json'), 'utf8');
  const { packages } = JSON.parse(lock) as { packages: Packages };
  const installed = Object.entries(packages)
    .filter(([path, { dev = false }]) => /^node_modules\/(@[^/]+\/)?[^/]+$/.test(path) && !dev)
    .map(([path]) => path)
    .filter((path) => existsSync(join(ROOT, path)));
  for (const path of installed) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    symlinkSync(join(ROOT, path), join(folder, path));
  }
  return folder;
}

/** The project and its build in a new folder, without the checkout's `.data`. No build starts. */
function aProject(t: Test, shell: string): string {
  const folder = testFolder(t);
  const built = ['dist/src', 'dist/.steps', 'dist/.tsbuildinfo-service'];
  const files = [
    'package.json',
    'package-lock.json',
    'prisma.config.ts',
    'tsconfig.json',
    'tsconfig.service.json',
  ];
  for (const part of ['scripts', ...files, ...built]) {
    cpSync(join(ROOT, part), join(folder, part), { recursive: true, preserveTimestamps: true });
  }
  for (const part of ['node_modules', 'prisma', 'src']) symlinkSync(join(ROOT, part), join(folder, part));
  writeFileSync(join(folder, '.npmrc'), `script-shell=${shell}\nupdate-notifier=false\n`);
  return folder;
}
