import { test } from 'tap';
import { latchkey } from '../support/latchkey.ts';

const plan = (...args: string[]) => latchkey(['plan', ...args]);

test('plan prints each figure with its reason, and needs no store', async (t) => {
  const DATABASE_URL = 'postgres://user@127.0.0.1:1/none';
  const { code, stdout, stderr } = await latchkey(['plan', '--users', '100000'], { DATABASE_URL });
  t.match({ code, stderr }, { code: 0, stderr: '' });
  for (const what of [
    'logins/s',
    'replicas at the peak',
    'HPA maxReplicas',
    'DATABASE_POOL',
    'maxmemory',
    'rows of',
  ])
    t.match(stdout, what);
});

test('plan --json holds the input and all figures', async (t) => {
  const args = '--users 10000000 --active-share 30% --refresh-every 5m --logins-per-day 0.5 --peak 5 --json';
  const { stdout } = await plan(...args.split(' '));
  t.match(JSON.parse(stdout), {
    usage: { users: 1e7, activeShare: 0.3, refreshEvery: 300, loginsPerDay: 0.5, peak: 5 },
    demand: { peak: { logins: Number, refreshes: Number, verifies: Number } },
    replicas: { peak: Number, cpu: 1, memory: 896 * 1024 ** 2, autoscaler: { targetCpu: 60 } },
    connections: { pool: Number, total: Number, exceedsDefault: true },
    redis: { masters: Number, maxMemory: Number },
    postgres: { tokens: Number, bytes: Number, rowWrites: Number },
  });
});

test('plan takes the figures of the busiest second', async (t) => {
  const args =
    '--users 1e6 --sessions-in-use 300000 --verifies-per-second 3000 --logins-per-second 12 --json';
  const { stdout } = await plan(...args.split(' '));
  t.match(JSON.parse(stdout), {
    usage: { known: { sessionsInUse: 300_000, verifies: 3000, logins: 12 } },
    demand: { inUse: 300_000, peak: { verifies: 3000, logins: 12, refreshes: Number, revocations: 12 } },
  });
});

test('plan counts revocations, changed users and readers of the feed', async (t) => {
  const args = '--users 1e6 --revocations-per-second 40 --changes-per-second 8 --feed-readers 5000';
  const { stdout } = await plan(...args.split(' '), '--json');
  t.match(JSON.parse(stdout), {
    usage: { feedReaders: 5000, known: { revocations: 40, changes: 8 } },
    demand: { peak: { revocations: 40, changes: 8 } },
    readersOfReplica: 2500,
  });
  const { stdout: text } = await plan(...args.split(' '));
  t.match(text, /feed readers of a replica +2,500 +too many: REVOCATION_READERS_MAX is 1,000/);
});

test('plan follows the settings of the environment', async (t) => {
  const planWith = async (env: Record<string, string>) =>
    JSON.parse((await latchkey(['plan', '--users', '1000', '--json'], env)).stdout) as {
      replicas: { loginsAtMost: number; hashConcurrency: number };
    };
  const [usual, twice] = [
    await planWith({}),
    await planWith({ HASH_CONCURRENCY: '4', UV_THREADPOOL_SIZE: '8' }),
  ];
  t.equal(twice.replicas.hashConcurrency, 4);
  t.equal(twice.replicas.loginsAtMost, 2 * usual.replicas.loginsAtMost);
  const weaker = await planWith({ SCRYPT_LOG_N: '16', SCRYPT_P: '1' });
  t.equal(weaker.replicas.loginsAtMost, 2 * usual.replicas.loginsAtMost, 'half the work of a hash');
});

test('plan refuses nonsense with the option and its range, and exits with 2', async (t) => {
  const wrong: [args: string, message: RegExp][] = [
    ['', /plan needs --users N/],
    ['--users 0', /--users must be a number from 1 to/],
    ['--users 1.5', /--users must be a whole number/],
    ['--users many', /--users must be a number.*"many"/],
    ['--users 9 --active-share 1.1', /--active-share must be a share/],
    ['--users 9 --active-share 120%', /--active-share must be a share/],
    ['--users 9 --refresh-every 10', /--refresh-every must be a time such as/],
    ['--users 9 --refresh-every 0s', /--refresh-every must be a time/],
    ['--users 9 --peak 0.5', /--peak must be a number from 1 to 100/],
    ['--users 9 --logins-per-day=-1', /--logins-per-day must be a number from 0/],
    ['--users 9 --visits-per-day 4 --visit-length 7h', /are more than a day/],
    ['--users 9 --verifies-per-second 1 --verifies-per-minute 1', /replaces --verifies-per-minute: give one/],
    [
      '--users 9 --sessions-in-use 14',
      /--sessions-in-use 14 are more than --users x --sessions-per-user, 13.5/,
    ],
    ['--users 9 --sessions-in-use 5 --refreshes-per-second 6', /more than one for each session in use/],
    ['--users 9 --revocations-per-second=-1', /--revocations-per-second must be a number from 0/],
    ['--users 9 --changes-per-second many', /--changes-per-second must be a number/],
    ['--users 9 --feed-readers 1.5', /--feed-readers must be a whole number/],
    ['--users 9 --logins-per-second few', /--logins-per-second must be a number/],
  ];
  for (const [args, message] of wrong) {
    const { code, stderr, stdout } = await plan(...args.split(' ').filter(Boolean));
    t.match({ code, stderr, stdout }, { code: 2, stderr: message, stdout: '' }, args);
  }
});
