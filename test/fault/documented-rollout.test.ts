// alone
import { spawn } from 'node:child_process';
import { copyFileSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { test, type Test } from 'tap';
import { onAHost, startDeployedCaddy } from '../support/deployed-caddy.ts';
import { startTwoReplicaNginx } from '../support/deployed-nginx.ts';
import { readDocument, ROOT } from '../support/documents.ts';
import { emulatedHost } from '../support/emulated-host.ts';
import { bareEnvironment } from '../support/environment.ts';
import { readBlocks } from '../support/markdown.ts';
import { testDatabase } from '../support/postgres.ts';
import { startRedis } from '../support/redis-server.ts';
import { toolsMissing } from '../support/tools.ts';
import { assertNoFailure } from './harness/assert-no-impact.ts';
import { startSteadyLoad } from './harness/steady-load.ts';

const BLOCKS = readBlocks(readDocument('docs/installing.md'))
  .filter(({ language }) => language === 'sh')
  .map(({ text }) => text);
/** An upgrade, and a rollback. */
const ROUNDS = 3;

interface Proxy {
  url: string;
  ca?: string;
  /** Its log of failed tries. */
  log?(): string;
}

const PROXIES: {
  name: string;
  skip: false | string;
  start: (t: Test, replicas: [string, string], opsPort: string) => Promise<Proxy>;
}[] = [
  {
    name: 'nginx',
    skip: toolsMissing('bash', 'curl', 'nginx', 'openssl', 'redis-server'),
    start: (t, replicas) => startTwoReplicaNginx(t, replicas),
  },
  {
    name: 'Caddy',
    skip: toolsMissing('bash', 'caddy', 'curl', 'redis-server'),
    start: (t, replicas, opsPort) => startDeployedCaddy(t, { 'latchkey:3000': replicas }, opsPort, onAHost),
  },
];

for (const { name, skip, start } of PROXIES) {
  test(`the documented rollout behind the documented ${name} loses no request`, { skip }, async (t) => {
    const host = await emulatedHost(t);
    const redis = await startRedis(t);
    const { url: database } = await testDatabase(t);
    writeFileSync(
      host.path('/etc/latchkey/service.env'),
      [settings(database, redis.url, host.path('/var/lib/latchkey')), host.settings].join('\n'),
    );
    copyFileSync(
      `${ROOT}deploy/systemd/latchkey@.service`,
      host.path('/etc/systemd/system/latchkey@.service'),
    );
    for (const version of ['old', 'new']) symlinkSync(ROOT, host.path(`/opt/latchkey/${version}`));
    // Pastes blocks of docs/installing.md in the folder of a version.
    const paste = (version: string, ...blocks: string[]) =>
      run(
        host.path(`/opt/latchkey/${version}`),
        Object.entries(host.words).reduce(
          (text, [word, here]) => text.replaceAll(word, here),
          ['conf=/etc/latchkey', ...blocks].join('\n'),
        ),
      );
    const functions = blockWith('ready() {');
    const rollout = blockWith('replace 1');
    await paste(
      'old',
      functions,
      'ln -sfn "$(pwd -P)" /opt/latchkey/current',
      blockWith('systemctl enable --now latchkey@'),
    );

    const replicas = ([1, 2] as const).map((replica) => ({ url: host.urlOf(replica), inRotation: true }));
    const proxy = await start(t, [host.urlOf(1), host.urlOf(2)], host.opsPort);
    const load = startSteadyLoad(t, proxy.url, replicas, { ca: proxy.ca });
    await load.renewed(1);
    for (let round = 0; round < ROUNDS; round++) {
      for (const version of ['new', 'old']) {
        await paste(version, functions, rollout);
        await load.renewed(1);
      }
    }
    // One replica is down for good.
    await paste('old', 'systemctl stop latchkey@1');
    await load.renewed(3);

    await assertNoFailure(t, `${ROUNDS} upgrades and rollbacks behind ${name}, and one replica down`, load);
    if (proxy.log) t.match(proxy.log(), /upstream_status=502, 200/, 'the log names failed tries');
  });
}

/** @throws Error unless one shell block of docs/installing.md has the text. */
function blockWith(text: string): string {
  const [block, ...others] = BLOCKS.filter((each) => each.includes(text));
  if (block === undefined || others.length > 0)
    throw new Error(`docs/installing.md: not one block with ${text}`);
  return block;
}

function settings(database: string, redis: string, dataDir: string): string {
  mkdirSync(dataDir, { recursive: true });
  return [
    `DATABASE_URL='${database}'`,
    `REDIS_URL='${redis}'`,
    `DATA_DIR=${dataDir}`,
    'TRUST_PROXY=loopback',
    // Shorter than the time for which nginx remembers a failure by default, and longer than Caddy's health_interval.
    'DRAIN_DELAY=3',
    'SCRYPT_LOG_N=4',
    ...['LOGIN', 'SIGNUP', 'SIGNUP_NETWORK', 'LLT', 'PROFILE'].map((limit) => `RATE_LIMIT_${limit}=0`),
    'SHED_LAG=0',
    // Other work on the machine must not cause a 503.
    'REDIS_TIMEOUT=5000',
    'DATABASE_TIMEOUT=20000',
    'HASH_QUEUE_TIMEOUT=60',
  ].join('\n');
}

function run(cwd: string, text: string): Promise<void> {
  const shell = spawn('bash', ['-euo', 'pipefail', '-c', text], {
    cwd,
    env: bareEnvironment({ PWD: cwd }),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [shell.stdout, shell.stderr])
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  return new Promise((resolve, reject) => {
    shell.once('error', reject);
    shell.once('close', (code) => {
      if (code === 0) resolve();
      else reject(new Error(`${text}\nended with ${code}:\n${output}`));
    });
  });
}
