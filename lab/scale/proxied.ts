import { spawn } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { cpuSecondsOf, stopperOf } from '../../test/support/measured-server.ts';
import { sampleOf, type Sample } from '../bench/statistics.ts';
import { freePort } from '../../test/support/free-port.ts';
import { answersHttp } from '../../test/support/server-process.ts';
import { toolsMissing } from '../../test/support/tools.ts';
import { eventually } from '../../test/support/until.ts';
import type { Bench } from './measure.ts';
import type { Population } from '../bench/population.ts';
import { startReplicas, type Replicas, type Round } from './replicas.ts';
import { callersOf, sourceOf } from './workloads.ts';

/** How two event loops of one host get their requests from nginx. */
export const WAYS = {
  'two replicas, requests in turn': '',
  'two replicas, `least_conn`': 'least_conn;',
  'two replicas, `hash $connection`': 'hash $connection;',
  'two replicas, `hash $http_authorization`': 'hash $http_authorization;',
  'two workers of `node:cluster`': '',
} as const;
type Way = keyof typeof WAYS;

/** CPU times in microseconds of one request; idle work counts, since each way has two event loops. */
export interface ProxiedFigure {
  operation: 'verify' | 'refresh';
  way: Way;
  perSecond: Sample;
  /** Of both event loops, with the parent of the workers. */
  micros: Sample;
  proxyMicros: Sample;
}

const CONNECTIONS = 64;
const WORKERS = new URL('two-workers.js', import.meta.url).pathname;

/**
 * The ways take turns in short rounds, so a busy moment of the machine hits all of them.
 * @throws Error without nginx
 */
export async function measureProxied(bench: Bench, population: Population): Promise<ProxiedFigure[]> {
  const missing = toolsMissing('nginx');
  if (missing) throw new Error(missing);
  const { world, meter } = bench;
  const closers: (() => Promise<void>)[] = [];
  const opened = <Of extends { stop(): Promise<void> }>(it: Of): Of => {
    closers.unshift(() => it.stop());
    return it;
  };
  try {
    const replicas = opened(await startReplicas(world, meter, 2));
    const workers = opened(await startReplicas(world, meter, 1, {}, WORKERS));
    const contenders = [];
    for (const way of Object.keys(WAYS) as Way[]) {
      const behind = way.includes('workers') ? workers : replicas;
      const proxy = opened(await startProxy(world.folder, behind.urls, WAYS[way]));
      contenders.push({ way, behind, proxy });
    }
    const figures: ProxiedFigure[] = [];
    for (const operation of ['verify', 'refresh'] as const) {
      const source = sourceOf(operation, population);
      const callers = () => callersOf(CONNECTIONS, () => source);
      const rounds = contenders.map(() => [] as ProxiedRound[]);
      // Not counted: connections, caches and the compiler.
      for (const each of contenders) await runThrough(each, callers(), bench.seconds);
      for (let i = 0; i < bench.rounds; i++) {
        const order = contenders.map((each, at) => ({ each, at }));
        for (const { each, at } of i % 2 === 0 ? order : order.toReversed())
          rounds[at]?.push(await runThrough(each, callers(), bench.seconds));
      }
      for (const [at, { way }] of contenders.entries()) {
        const of = (name: 'perSecond' | 'micros' | 'proxyMicros') =>
          sampleOf((rounds[at] ?? []).map((round) => round[name]));
        figures.push({
          operation,
          way,
          perSecond: of('perSecond'),
          micros: of('micros'),
          proxyMicros: of('proxyMicros'),
        });
      }
    }
    return figures;
  } finally {
    for (const close of closers) await close();
  }
}

interface ProxiedRound extends Round {
  proxyMicros: number;
}

async function runThrough(
  { behind, proxy }: { behind: Replicas; proxy: Proxy },
  callers: ReturnType<typeof callersOf>,
  seconds: number,
): Promise<ProxiedRound> {
  const before = proxy.cpuSeconds();
  const round = await behind.run(callers, seconds, { through: proxy.url });
  return { ...round, proxyMicros: ((proxy.cpuSeconds() - before) * 1e6) / round.requests };
}

interface Proxy {
  url: string;
  cpuSeconds(): number;
  stop(): Promise<void>;
}

/** @param method how nginx chooses a backend: a directive of `upstream`; in turn, if it is empty. */
async function startProxy(parent: string, backends: readonly string[], method: string): Promise<Proxy> {
  const folder = mkdtempSync(join(parent, 'nginx-'));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const file = join(folder, 'nginx.conf');
  const servers = backends.map((backend) => `server ${new URL(backend).host};`).join(' ');
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  writeFileSync(
    file,
    `
    daemon off;
    ${process.getuid?.() === 0 ? 'user root;' : ''}
    worker_processes 1;
    pid ${folder}/pid;
    events { worker_connections 512; }
    http {
      access_log off;
      ${temporary.map((kind) => `${kind}_temp_path ${folder}/${kind};`).join(' ')}
      keepalive_requests 1000000000;
      upstream latchkey { ${method} ${servers} keepalive ${CONNECTIONS}; keepalive_requests 1000000000; }
      server {
        listen 127.0.0.1:${port};
        location / {
          proxy_pass http://latchkey;
          proxy_http_version 1.1;
          proxy_set_header Connection '';
        }
      }
    }
  `,
  );
  const child = spawn('nginx', ['-p', folder, '-c', file, '-e', 'errors.log'], { stdio: 'inherit' });
  const stop = stopperOf(child);
  try {
    await eventually(10, async () => ((await answersHttp(url)) ? null : 'nginx does not answer'));
  } catch (error) {
    await stop();
    throw error;
  }
  return { url, cpuSeconds: () => cpuSecondsOf(child.pid ?? 0), stop };
}
