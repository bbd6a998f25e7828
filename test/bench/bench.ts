/**
 * `npm run bench`: verify and refresh, in requests a second, as ratios to the floor (floor.ts) in the same run.
 * Then an open loop: the latency of verify during a flood of logins, compared with an idle server (flood.ts).
 * Then a timing test: whether the duration of a failed login reveals why it failed (login-times.ts).
 * Then the memory of a replica under both loads, compared with what the configuration check assumes (memory.ts).
 * Exit code 1 if a ratio is below BENCH_MIN_VERIFY or BENCH_MIN_REFRESH, or above BENCH_MAX_FLOOD; if the times of failed
 * logins differ; if the power to find a difference of 5% is below BENCH_MIN_POWER (0 turns this check off); or if the
 * memory exceeds the assumption.
 *
 * --json             one line of JSON, with every round
 * --profile FOLDER   CPU profiles of both servers
 * --floor SCRIPT     a server to compare with instead of the floor, such as dist/src/server.js of an older build
 */
import { parseArgs } from 'node:util';
import { measureFlood } from './flood.ts';
import { runLoad, type Caller } from './load.ts';
import { measureLoginTimes } from './login-times.ts';
import { measureMemory } from './memory.ts';
import { median, printReport, type KindReport, type Round } from './report.ts';
import { startServer, type ServerProcess } from './server-process.ts';
import { makeWorld, type World } from './world.ts';

const CONNECTIONS = 64;
/** Tokens that the load verifies in turn: more than connections, few enough for every cache. */
const VERIFY_SESSIONS = 200;
/** Many short rounds: other work on the machine comes in bursts of seconds, and should hit both servers alike. */
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 35);
const ROUND_SECONDS = Number(process.env.BENCH_SECONDS ?? 0.5);
const WARM_UP_SECONDS = 3;
/** Fewer, longer rounds: a p99 needs a thousand answers. */
const FLOOD_ROUNDS = Math.min(ROUNDS, 9);
const FLOOD_SECONDS = Number(process.env.BENCH_FLOOD_SECONDS ?? 3);
const MEMORY_SECONDS = Number(process.env.BENCH_MEMORY_SECONDS ?? 15);
const LOGIN_ROUNDS = Number(process.env.BENCH_LOGIN_ROUNDS ?? 90);

const { values: flags } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    profile: { type: 'string' },
    floor: { type: 'string', default: new URL('./floor.js', import.meta.url).pathname },
  },
});
const SERVERS = {
  floor: flags.floor,
  service: new URL('../../src/server.js', import.meta.url).pathname,
};
type ServerName = keyof typeof SERVERS;
type Servers = Record<ServerName, ServerProcess>;

// Ctrl-C also ends the servers. Then the load fails, and the usual cleanup runs.
process.once('SIGINT', () => undefined);

const world = await makeWorld();
try {
  const speed = await measureSpeed(world);
  const flood = await measureFlood(world, {
    rounds: FLOOD_ROUNDS,
    seconds: FLOOD_SECONDS,
    maximum: limit('BENCH_MAX_FLOOD', 3),
  });
  const logins = await measureLoginTimes(world, {
    rounds: LOGIN_ROUNDS,
    minPower: limit('BENCH_MIN_POWER', 0.9),
  });
  const memory = await measureMemory(world, { seconds: MEMORY_SECONDS });
  printReport({ speed, flood, logins, memory }, { json: flags.json, connections: CONNECTIONS });
  const isTooSlow = speed.some(({ ratio, minimum }) => ratio < minimum) || flood.ratio > flood.maximum;
  if (isTooSlow || logins.tells || logins.isBlind || memory.isOver) process.exitCode = 1;
} finally {
  await world.close();
}

function limit(variable: string, fallback: number): number {
  return Number(process.env[variable] ?? fallback);
}

async function measureSpeed(world: World): Promise<KindReport[]> {
  const servers = await startServers(world, flags.profile);
  try {
    return [
      await measure('verify', servers, await verifyCallers(world), limit('BENCH_MIN_VERIFY', 0.6)),
      await measure('refresh', servers, await refreshCallers(world), limit('BENCH_MIN_REFRESH', 0.7)),
    ];
  } finally {
    await Promise.all(Object.values(servers).map((server) => server.stop()));
  }
}

async function startServers({ folder, env }: World, profile: string | undefined): Promise<Servers> {
  const nodeOptions = profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profile}`];
  const start = (name: ServerName) =>
    startServer({ script: SERVERS[name], nodeOptions, env, logFile: `${folder}/${name}.log` });
  const floor = await start('floor');
  try {
    return { floor, service: await start('service') };
  } catch (error) {
    await floor.stop();
    throw error;
  }
}

/** Both servers verify the same sessions. */
async function verifyCallers(world: World): Promise<Record<ServerName, Caller[]>> {
  const pairs = await world.signUpMany(VERIFY_SESSIONS);
  let next = 0;
  const callers = Array.from({ length: CONNECTIONS }, () => ({
    token: () => pairs[next++ % pairs.length]?.access_token ?? '',
    answered: () => undefined,
  }));
  return { floor: callers, service: callers };
}

/** Every connection owns a session and always presents its newest refresh token. */
async function refreshCallers(world: World): Promise<Record<ServerName, Caller[]>> {
  const callers = async () =>
    (await world.signUpMany(CONNECTIONS)).map(({ refresh_token: first }) => {
      let token = first;
      return {
        token: () => token,
        answered: (body: string) => {
          token = (JSON.parse(body) as { refresh_token: string }).refresh_token;
        },
      };
    });
  return { floor: await callers(), service: await callers() };
}

/** Runs rounds on both servers in turn, in an order that changes each time. */
async function measure(
  kind: 'verify' | 'refresh',
  servers: Servers,
  callers: Record<ServerName, Caller[]>,
  minimum: number,
): Promise<KindReport> {
  const once = async (name: ServerName, seconds: number): Promise<Round> => {
    const server = servers[name];
    const before = server.cpuSeconds();
    const result = await runLoad(server.url, `/api/auth/${kind}`, callers[name], seconds);
    const cpu = server.cpuSeconds() - before;
    server.emptyLog();
    return {
      perSecond: result.requests / result.seconds,
      serverMicros: (cpu * 1e6) / result.requests,
      serverCpu: cpu / result.seconds,
      generatorCpu: result.cpu,
    };
  };
  await once('floor', WARM_UP_SECONDS);
  await once('service', WARM_UP_SECONDS);

  const rounds: Record<ServerName, Round>[] = [];
  for (let i = 0; i < ROUNDS; i++) {
    const order: ServerName[] = i % 2 === 0 ? ['floor', 'service'] : ['service', 'floor'];
    const round: Partial<Record<ServerName, Round>> = {};
    for (const name of order) round[name] = await once(name, ROUND_SECONDS);
    rounds.push(round as Record<ServerName, Round>);
  }
  const ratios = rounds.map(({ floor, service }) => service.perSecond / floor.perSecond);
  return { kind, minimum, ratio: median(ratios), ratios, rounds };
}
