import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock } from '../../src/runtime/system-clock.ts';
import type { RunArguments } from './arguments.ts';
import { growthText } from './growth.ts';
import { ROUNDS, runHerd } from './herd.ts';
import { herdPicture, loadPicture, roundLine } from './pictures.ts';
import { makeJudge, type Judge } from './judge.ts';
import type { LiveView } from './live-view.ts';
import { startOwnService, type OwnService } from './own-service.ts';
import { pageOf } from './page.ts';
import { devicesOf, logInAll, type OpenedDevice } from './prepare.ts';
import { failuresOf, makeReport, type Ran } from './report.ts';
import { runScenario } from './run.ts';
import { SCENARIOS } from './scenarios.ts';
import { makeWire, type Wire } from './wire.ts';

/** What a run has. */
interface Site {
  options: RunArguments;
  url: string;
  own: OwnService | null;
  wire: Wire;
  judge: Judge;
  view: LiveView;
  signal: AbortSignal;
}

/** Devices of all rounds of the herd, as a multiple of N. */
const HERD_SHARES = ROUNDS.reduce((sum, each) => sum + each, 0);

/**
 * Runs a scenario and writes its report.
 * @returns why it failed; empty if all is well.
 * @throws LoadError if it cannot begin
 */
export async function runLoadTest(
  options: RunArguments,
  view: LiveView,
  signal: AbortSignal,
): Promise<string[]> {
  const isHerd = options.scenario === 'herd';
  const users = options.users * (isHerd ? HERD_SHARES : 1);
  const signedIn = options.scenario === 'herd' ? 1 : SCENARIOS[options.scenario].signedIn;
  const sessions = Math.round(users * signedIn);
  const own =
    options.url === null
      ? await startOwnService({ users, sessions }, (line) => {
          view.say(line);
        })
      : null;
  const url = options.url ?? own?.url ?? '';
  const wire = makeWire(url, options.connections);
  const judge = makeJudge();
  const site = { options, url, own, wire, judge, view, signal };
  try {
    const pairs = own?.pairs ?? (await logInAll(loginsNeeded(site, sessions), loggingIn(site, sessions)));
    const devices = devicesOf(users, pairs, judge);
    const ran = isHerd ? await herd(site, devices) : await openLoop(site, devices);
    return write(ran, view);
  } finally {
    await wire.close();
    await own?.stop();
  }
}

/** One login at least: it shows that the service is up, and knows the seeded users. */
function loginsNeeded({ options }: Site, sessions: number): number {
  return options.scenario === 'signup-burst' ? sessions : Math.max(1, sessions);
}

function loggingIn({ wire, view, signal }: Site, sessions: number) {
  const progress = (done: number) => {
    view.progress('logging in', done, Math.max(1, sessions));
  };
  const pause = (ms: number) => sleep(ms, undefined, { signal }).catch(() => undefined);
  return { wire, pause, progress, signal };
}

async function openLoop(site: Site, devices: OpenedDevice[]): Promise<Ran> {
  const { options, wire, judge, view, signal, url } = site;
  if (options.scenario === 'herd') throw new Error('the herd has no schedule');
  const started = new Date();
  let unfollow: () => void = () => undefined;
  const result = await runScenario({
    scenario: SCENARIOS[options.scenario],
    ...{ rate: options.rate, seconds: options.seconds, lost: options.lost },
    ...{ devices, wire, judge, signal },
    clock: systemClock,
    random: Math.random,
    watch: (run) => {
      unfollow = view.follow(() => loadPicture(run, { seconds: options.seconds, judge }));
    },
  }).finally(() => {
    unfollow();
  });
  return { options, url, started, judge, ...result };
}

async function herd(site: Site, devices: OpenedDevice[]): Promise<Ran> {
  const { options, own, wire, judge, view, signal, url } = site;
  const started = new Date();
  const since = performance.now();
  const cpu = process.cpuUsage();
  let unfollow: () => void = () => undefined;
  const { rounds, samples } = await runHerd({
    ...{ devices, wire, judge, signal },
    ...{ seconds: options.seconds, lost: options.lost },
    clock: systemClock,
    random: Math.random,
    setOutage: (isOut) => own?.database.set(isOut ? 'refuse' : 'pass'),
    watch: (run) => {
      unfollow = view.follow(() => herdPicture(run, judge));
    },
  }).finally(() => {
    unfollow();
  });
  const seconds = (performance.now() - since) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  return {
    ...{ options, url, started, judge, samples, seconds, rounds },
    ok: samples.all().ok,
    arrivals: devices.length,
    not_begun: 0,
    generator: { late_p99_ms: null, cpu: (user + system) / 1e6 / seconds },
  };
}

function write(ran: Ran, view: LiveView): string[] {
  const report = makeReport(ran);
  const { totals, correctness, herd: outage } = report;
  mkdirSync(ran.options.report, { recursive: true });
  writeFileSync(join(ran.options.report, 'report.json'), `${JSON.stringify(report, null, 2)}\n`);
  writeFileSync(join(ran.options.report, 'report.html'), pageOf(report));
  view.say(
    `${report.scenario}: ${totals.requests} requests in ${totals.seconds} s, ${totals.ok_per_second} answers with 200 a second; ` +
      `median ${totals.p50 ?? 'none'} ms, p99 ${totals.p99 ?? 'none'} ms`,
  );
  for (const [code, count] of Object.entries(report.errors)) view.say(`  ${count} × ${code}`);
  for (const round of outage?.rounds ?? []) view.say(`  ${roundLine(round)}`);
  if (outage) view.say(growthText(outage));
  view.say(`correctness: ${JSON.stringify(correctness)}`);
  for (const finding of report.findings) view.say(`  ${finding}`);
  view.say(join(ran.options.report, 'report.html'));
  return failuresOf(report);
}
