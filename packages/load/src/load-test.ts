import { setTimeout as sleep } from 'node:timers/promises';
import { makeRunAccounts, type RunAccounts } from './accounts.ts';
import type { RunArguments } from './arguments.ts';
import { ROUNDS, runHerd } from './herd.ts';
import { herdPicture, loadPicture } from './pictures.ts';
import { makeJudge, type Judge } from './judge.ts';
import type { LiveView } from './live-view.ts';
import { LoadError } from './load-error.ts';
import {
  deleteAccounts,
  devicesOf,
  findService,
  openAccounts,
  type OpenedAccount,
  type OpenedDevice,
} from './prepare.ts';
import { makeReport, type Ran } from './report.ts';
import { runScenario } from './run.ts';
import { SCENARIOS } from './scenarios.ts';
import { isReadable } from './target.ts';
import type { Clock } from './schedule.ts';
import { makeWire, type Wire } from './wire.ts';
import { makeFolder, writeReport } from './write-report.ts';

/** A service that the repository starts for a run. */
export interface OwnService {
  url: string;
  users: readonly OpenedAccount[];
  /** Between the service and PostgreSQL. */
  setOutage: (isOut: boolean) => void;
  stop(): Promise<void>;
}

export type StartOwnService = (
  size: { users: number; sessions: number },
  say: (line: string) => void,
) => Promise<OwnService>;

/** What a run has. */
interface Site {
  options: RunArguments;
  url: string;
  own: OwnService | null;
  run: RunAccounts;
  wire: Wire;
  judge: Judge;
  view: LiveView;
  signal: AbortSignal;
}

/** Devices of all rounds of the herd, as a multiple of N. */
const HERD_SHARES = ROUNDS.reduce((sum, each) => sum + each, 0);

const clock: Clock = { now: () => Date.now(), monotonic: () => performance.now() };

/**
 * Runs a scenario and writes its report.
 * @param startOwn without --url
 * @returns why it failed; empty if all is well.
 * @throws LoadError if it cannot begin
 */
export async function runLoadTest(
  options: RunArguments,
  { view, signal, startOwn }: { view: LiveView; signal: AbortSignal; startOwn?: StartOwnService | undefined },
): Promise<string[]> {
  makeFolder(options.report);
  const isHerd = options.scenario === 'herd';
  const users = options.users * (isHerd ? HERD_SHARES : 1);
  const signedIn = options.scenario === 'herd' ? 1 : SCENARIOS[options.scenario].signedIn;
  const size = { users, sessions: Math.round(users * signedIn) };
  const own = options.url === null ? ((await startOwn?.(size, view.say)) ?? null) : null;
  const url = options.url ?? own?.url ?? '';
  const wire = makeWire(url, options.connections);
  const judge = makeJudge();
  const site = { options, url, own, run: makeRunAccounts(), wire, judge, view, signal };
  const created = new Set<number>();
  try {
    const devices = devicesOf(own?.users ?? (await open(site, size, created)), judge);
    site.options = { ...options, users: isHerd ? options.users : devices.length };
    const ran = isHerd ? await herd(site, devices) : await openLoop(site, devices);
    return writeReport(makeReport(ran), options.report, view);
  } finally {
    await cleanUp(site, created);
    await wire.close();
    await own?.stop();
  }
}

async function open(
  { options: { accounts, scenario }, url, run, view, wire, signal }: Site,
  { users, sessions }: { users: number; sessions: number },
  created: Set<number>,
): Promise<OpenedAccount[]> {
  if (!accounts) throw new Error('a service at a URL needs accounts');
  if (isReadable(url))
    view.say(
      `${url} is not encrypted: others on the way can read secrets and tokens. Use https unless the network is yours alone`,
    );
  await findService(url, wire);
  view.say(`accounts that this run adds are named ${run.prefix}…`);
  // One at least: it shows that the accounts are good.
  const size = { users, sessions: scenario === 'signup-burst' ? sessions : Math.max(1, sessions) };
  const pause = (ms: number) => sleep(ms, undefined, { signal }).catch(() => undefined);
  const at = { wire, pause, progress: view.progress, say: view.say, clock, signal };
  const opened = await openAccounts(accounts, size, { ...at, run, created: (id) => created.add(id) });
  if (opened.length < users)
    view.say(`the limits of signups allow ${opened.length} accounts: the run has so many devices`);
  return opened;
}

/** Deletes what the run added, as far as it may. Its report is written already. */
async function cleanUp(
  { options: { accounts }, run: { prefix }, judge, wire, view }: Site,
  created: Set<number>,
): Promise<void> {
  if (accounts?.from !== 'client') return;
  for (const [id, username] of judge.users()) if (username.startsWith(prefix)) created.add(id);
  const at = { wire, pause: sleep, progress: view.progress, say: view.say, clock };
  await deleteAccounts([...created], accounts.client, at).catch((error: unknown) => {
    if (!(error instanceof LoadError)) throw error;
    view.say(`accounts named ${prefix}… are left: ${error.message}`);
  });
}

async function openLoop(site: Site, devices: OpenedDevice[]): Promise<Ran> {
  const { options, run, wire, judge, view, signal, url } = site;
  if (options.scenario === 'herd') throw new Error('the herd has no schedule');
  const started = new Date();
  let unfollow: () => void = () => undefined;
  const result = await runScenario({
    scenario: SCENARIOS[options.scenario],
    rate: options.rate,
    seconds: options.seconds,
    lost: options.lost,
    devices,
    wire,
    judge,
    signal,
    clock,
    random: Math.random,
    newAccount: (i) => run.account(devices.length + i),
    watch: (running) => {
      unfollow = view.follow(() =>
        loadPicture(running, {
          seconds: options.seconds,
          judge,
        }),
      );
    },
  }).finally(() => {
    unfollow();
  });
  return { options, url, started, judge, interrupted: signal.aborted, ...result };
}

async function herd(site: Site, devices: OpenedDevice[]): Promise<Ran> {
  const { options, own, wire, judge, view, signal, url } = site;
  const started = new Date();
  const since = performance.now();
  const cpu = process.cpuUsage();
  let unfollow: () => void = () => undefined;
  const { rounds, samples } = await runHerd({
    devices,
    wire,
    judge,
    signal,
    seconds: options.seconds,
    lost: options.lost,
    clock,
    random: Math.random,
    setOutage: (isOut) => own?.setOutage(isOut),
    watch: (running) => {
      unfollow = view.follow(() => herdPicture(running, judge));
    },
  }).finally(() => {
    unfollow();
  });
  const seconds = (performance.now() - since) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  return {
    options,
    url,
    started,
    judge,
    samples,
    seconds,
    rounds,
    interrupted: signal.aborted,
    ok: samples.all().ok,
    arrivals: devices.length,
    not_begun: 0,
    generator: {
      late_p99_ms: null,
      cpu: (user + system) / 1e6 / seconds,
    },
  };
}
