import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runLoad } from '../../../test/support/generator/load.ts';
import { serviceWorkload, type Operation } from '../operations.ts';
import { startServer } from '../../../test/support/measured-server.ts';
import { median } from '../statistics.ts';
import type { World } from '../world.ts';
import { PARTS, sharesOfParts, type CpuProfile, type Part } from './parts.ts';

interface Rounds {
  count: number;
  seconds: number;
}

/**
 * Where the time of a request goes. Each operation gets a process of its own, so that its profile holds nothing else.
 * @param script the service, or an older build of it.
 * @returns CPU microseconds of one request, by part: those of all threads, medians of the rounds.
 */
export async function measureBudget(
  world: World,
  operation: Operation,
  script: string,
  { count, seconds }: Rounds,
): Promise<Record<Part, number>> {
  const folder = mkdtempSync(join(world.folder, 'profile-'));
  const server = await startServer({
    script,
    nodeOptions: ['--cpu-prof', `--cpu-prof-dir=${folder}`],
    env: world.unlimited,
    logFile: join(folder, 'log'),
  });
  const micros: number[] = [];
  const span = { from: 0, to: 0 };
  try {
    const workload = await serviceWorkload(operation, world, (count + 1) * seconds);
    const run = async () => {
      const before = server.cpuSeconds();
      const { requests } = await runLoad(server.url, workload.callers, seconds);
      server.emptyLog();
      return ((server.cpuSeconds() - before) * 1e6) / requests;
    };
    // Not measured: the compiler's work, mostly.
    await run();
    span.from = monotonicMicros();
    for (let i = 0; i < count; i++) micros.push(await run());
    span.to = monotonicMicros();
  } finally {
    await server.stop();
  }
  const [name = ''] = readdirSync(folder).filter((file) => file.endsWith('.cpuprofile'));
  const profile = JSON.parse(readFileSync(join(folder, name), 'utf8')) as CpuProfile;
  const shares = sharesOfParts(profile, span);
  const each = median(micros);
  return Object.fromEntries(PARTS.map((part) => [part, shares[part] * each])) as Record<Part, number>;
}

/** The clock of V8's profiles, which all processes share. */
function monotonicMicros(): number {
  return Number(process.hrtime.bigint() / 1000n);
}
