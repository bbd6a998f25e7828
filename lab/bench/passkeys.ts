/**
 * `npm run bench:passkeys`: what passkeys add to the start and the memory of a replica, what a login with one takes
 * beside one with a password, and what a passkey and a challenge take in the stores.
 * `--json`: one line of JSON. `--save` writes the tables into docs/performance.md, and needs a quiet machine.
 */
import { parseArgs } from 'node:util';
import { makeRedisClient } from '../../src/infra/redis/connection/open-redis.ts';
import { aPasskey } from '../../test/support/authenticator.ts';
import { startServer, type ServerProcess } from '../../test/support/measured-server.ts';
import { FACTOR_PASSWORD } from '../../test/support/own-factors.ts';
import { ORIGIN, PASSKEYS } from '../../test/support/passkeys.ts';
import { redisServer } from '../../test/support/redis.ts';
import { sql } from '../../test/support/sql.ts';
import { fixed, loadBefore, print, reportText, save, sourceText, spread, thisMachine } from '../table.ts';
import { sampleOf, type Sample } from './statistics.ts';
import { SERVICE } from './subject.ts';
import { makeWorld, type World } from './world.ts';

const COMMAND = 'npm run bench:passkeys -- --save';
const STARTS = 9;
const ROUNDS = 9;
/** Logins of a round. */
const LOGINS = 50;
/** Challenges that are issued, and passkeys on record, for the bytes of one. */
const MANY = 10_000;
/** How many spent challenges a passkey keeps. */
const KEPT = 32;

const { values: flags } = parseArgs({
  options: { json: { type: 'boolean', default: false }, save: { type: 'boolean', default: false } },
});
const load = loadBefore(flags.save);
const world = await makeWorld();
try {
  const report = { starts: await measureStarts(), ...(await measureWork()) };
  const date = new Date().toISOString();
  const machine = thisMachine();
  const source = sourceText(date, machine, `load average ${fixed(load, 1)}`);
  const text = reportText(tablesOf(report), [], source);
  await print(flags.json, { date, machine, load, ...report }, text);
  if (flags.save) await save({ [COMMAND]: text });
} finally {
  await world.close();
}

function start(env: NodeJS.ProcessEnv): Promise<ServerProcess> {
  const logFile = `${world.folder}/passkeys.log`;
  // The logins of the rounds are many for one account.
  const settings = { ...world.unlimited, RATE_LIMIT_LLT: '0', ...env };
  return startServer({ script: SERVICE, nodeOptions: [], env: settings, logFile });
}

/** Both kinds of a replica in turns, because the machine changes within minutes. */
async function measureStarts() {
  const settings = { off: {}, on: PASSKEYS };
  const found = { off: [] as number[][], on: [] as number[][] };
  for (let round = 0; round < STARTS; round++)
    for (const name of ['off', 'on'] as const) {
      const since = performance.now();
      const server = await start(settings[name]);
      const seconds = (performance.now() - since) / 1000;
      found[name].push([seconds, server.anonymousMemory(), server.residentMemory()]);
      await server.stop();
      server.emptyLog();
    }
  const of = (rounds: number[][]) => {
    const [seconds, anonymous, resident] = [0, 1, 2].map((i) => sampleOf(rounds.map((each) => each[i] ?? 0)));
    return { seconds, anonymous, resident } as Record<'seconds' | 'anonymous' | 'resident', Sample>;
  };
  return { off: of(found.off), on: of(found.on) };
}

async function measureWork() {
  const server = await start(PASSKEYS);
  try {
    const post = async <Answer>(path: string, body?: object, token?: string): Promise<Answer> => {
      const headers = {
        ...(body && { 'content-type': 'application/json' }),
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
      };
      const response = await fetch(`${server.url}${path}`, {
        method: 'POST',
        headers,
        body: body ? JSON.stringify(body) : null,
      });
      if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
      return (await response.json()) as Answer;
    };
    const [ada, grace] = await world.signUpMany(2);
    if (!ada || !grace) throw new Error('no accounts');
    const passkey = aPasskey({ origin: ORIGIN });
    type Options = Parameters<typeof passkey.enrol>[0] & Parameters<typeof passkey.logIn>[0];
    const begun = await post<Options>('/api/user/factors/passkey', FACTOR_PASSWORD, ada.access_token);
    const enrolment = { name: 'Phone', passkey: passkey.enrol(begun) };
    await post('/api/user/factors/passkey/confirm', enrolment, ada.access_token);

    // Its hash has the cost of production, which a login brings up to date.
    const password = { username: grace.user.username, password: FACTOR_PASSWORD.current_password };
    const logins = {
      password: () => post('/api/auth', password),
      passkey: async () => {
        const options = await post<Options>('/api/auth/passkey');
        return post('/api/auth/second-factor', { passkey: passkey.logIn(options) });
      },
    };
    const fresh = await bytesOfRow();
    const redisKeys = await keysAfter(world, async () => {
      for (let i = 0; i < MANY; i++) await post('/api/auth/passkey');
    });
    return {
      logins: await measureLogins(server, logins),
      bytes: { challengeKeys: redisKeys, fresh, used: await bytesOfRow() },
      tables: await bytesOfTables(),
    };
  } finally {
    await server.stop();
  }
}

/** CPU milliseconds of the replica, and milliseconds until the answer, of one login after another. */
async function measureLogins(server: ServerProcess, logins: Record<'password' | 'passkey', () => unknown>) {
  const found = { password: [] as number[][], passkey: [] as number[][] };
  for (let round = -1; round < ROUNDS; round++)
    for (const name of ['password', 'passkey'] as const) {
      const [cpu, since] = [server.cpuSeconds(), performance.now()];
      for (let i = 0; i < LOGINS; i++) await logins[name]();
      const times = [(1000 * (server.cpuSeconds() - cpu)) / LOGINS, (performance.now() - since) / LOGINS];
      // Compilers work in the first round.
      if (round >= 0) found[name].push(times);
    }
  const of = (rounds: number[][]) => ({
    cpu: sampleOf(rounds.map(([cpu = 0]) => cpu)),
    answer: sampleOf(rounds.map(([, answer = 0]) => answer)),
  });
  return { password: of(found.password), passkey: of(found.passkey) };
}

/** By how many keys Redis grows. */
async function keysAfter({ env }: World, work: () => Promise<void>): Promise<number> {
  const redis = makeRedisClient({ server: redisServer(env.REDIS_URL ?? ''), timeout: 10_000 });
  await redis.connect();
  try {
    const before = await redis.dbsize();
    await work();
    return (await redis.dbsize()) - before;
  } finally {
    redis.disconnect();
  }
}

/** Of the one passkey on record. */
async function bytesOfRow(): Promise<number> {
  const query = 'SELECT pg_column_size(passkeys.*) AS bytes FROM passkeys';
  const [row] = await sql<{ bytes: number }>(world.env.DATABASE_URL ?? '', query);
  return row?.bytes ?? NaN;
}

/** Of each of many passkeys with their indexes, all of which have kept as many challenges as they may. */
async function bytesOfTables() {
  const database = world.env.DATABASE_URL ?? '';
  await sql(
    database,
    `WITH added AS (
       INSERT INTO factors (user_id, type, name, created_at, confirmed_at, last_used_at, key_id, secret)
       SELECT user_id, type, name, now(), now(), now(), '', '' FROM factors, generate_series(2, $1::int) RETURNING id)
     INSERT INTO passkeys
     SELECT added.id, sha256(added.id::text::bytea), public_key, rp_id, counter, backup_eligible, backed_up, transports,
       used_challenges FROM passkeys, added`,
    [MANY],
  );
  const [row] = await sql<Record<'passkeys' | 'factors' | 'kept', string>>(
    database,
    `SELECT pg_total_relation_size('passkeys') AS passkeys, pg_total_relation_size('factors') AS factors,
       (SELECT min(cardinality(used_challenges)) FROM passkeys) AS kept`,
  );
  if (Number(row?.kept) !== KEPT) throw new Error(`a passkey keeps ${row?.kept} challenges`);
  return { passkeys: Number(row?.passkeys) / MANY, factors: Number(row?.factors) / MANY };
}

function tablesOf({
  starts,
  logins,
  bytes,
  tables,
}: Awaited<ReturnType<typeof measureWork>> & {
  starts: Awaited<ReturnType<typeof measureStarts>>;
}) {
  const mebibytes = ({ median, low, high }: Sample) =>
    spread({ median: median / 2 ** 20, low: low / 2 ** 20, high: high / 2 ** 20 }, 0);
  return [
    {
      title: 'A replica after its start, with passkeys off and on',
      head: ['passkeys', 'seconds until it serves', 'MiB of its own', 'MiB with mapped files'],
      rows: (['off', 'on'] as const).map((name) => {
        const { seconds, anonymous, resident } = starts[name];
        return [name, spread(seconds, 2), mebibytes(anonymous), mebibytes(resident)];
      }),
    },
    {
      title: 'A login, one after another',
      head: ['login', 'CPU ms of the replica', 'ms until the answer', 'times the CPU of a passkey'],
      rows: (['passkey', 'password'] as const).map((name) => {
        const { cpu, answer } = logins[name];
        const times = fixed(cpu.median / logins.passkey.cpu.median, 1);
        return [name, spread(cpu, 1), spread(answer, 1), times];
      }),
    },
    {
      title: 'Bytes of a passkey',
      head: ['store', 'what', 'bytes'],
      rows: [
        ['PostgreSQL', 'its row, new', bytes.fresh],
        ['PostgreSQL', `its row with ${KEPT} challenges`, bytes.used],
        ['PostgreSQL', 'the same with its page and indexes', tables.passkeys],
        ['PostgreSQL', 'and among the factors', tables.factors],
        ['Redis', `keys of ${MANY.toLocaleString('en-US')} challenges`, bytes.challengeKeys],
      ],
    },
  ];
}
