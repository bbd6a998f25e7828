import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { parse, stringify } from 'yaml';
import { readRules, ROOT } from './alert-rules.ts';
import { freePort } from './redis-server.ts';
import { toolsMissing } from './tools.ts';
import { until } from './until.ts';

/** Why the suites that start Prometheus cannot run here; false where they can. */
export const prometheusMissing = toolsMissing('bash', 'prometheus');

export interface Sample {
  labels: Record<string, string>;
  value: number;
}

export interface FiringAlert {
  labels: Record<string, string> & { alertname: string };
  annotations: Record<string, string>;
}

/** A Prometheus of the test's own, with our configuration and rules; it ends with the test. */
export interface Prometheus {
  /** From now on these are scraped. @param targets ops URLs, by the `namespace` that a cluster would give them. */
  scrape(targets: Record<string, readonly string[]>): void;
  /** What an expression is now. @throws Error where Prometheus does not take it. */
  query(expr: string): Promise<Sample[]>;
  firing(): Promise<FiringAlert[]>;
}

/** Ends what it started when its standard input closes, which it does however the test ends. */
const GUARD = '"$@" & cat >/dev/null; exec 2>/dev/null; kill -TERM %1; wait';
/** Seconds between two scrapes, and between two evaluations. */
const INTERVAL = 1;

/** No alert waits: that it does where it should is for promtool's tests, and here a minute is dear. */
export async function startPrometheus(t: Test): Promise<Prometheus> {
  const folder = mkdtempSync(join(tmpdir(), 'lk-prometheus-'));
  const url = `http://127.0.0.1:${await freePort()}`;
  const scrape: Prometheus['scrape'] = (targets) => {
    const groups = Object.entries(targets).map(([namespace, urls]) => ({
      targets: urls.map((each) => new URL(each).host),
      labels: { namespace },
    }));
    // In one step: Prometheus reads the file whenever it changes.
    writeFileSync(join(folder, 'targets.new'), JSON.stringify(groups));
    renameSync(join(folder, 'targets.new'), join(folder, 'targets.json'));
  };
  scrape({});
  writeFileSync(join(folder, 'prometheus.yaml'), configuration(folder));
  writeFileSync(join(folder, 'rules.yaml'), rulesAtOnce());

  const guard = spawn('bash', ['-c', GUARD, 'guard', 'prometheus', ...argumentsFor(folder, url)], {
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  const ended = once(guard, 'exit');
  t.teardown(async () => {
    guard.stdin.end();
    await ended;
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });
  await until(async () => (await fetch(`${url}/-/ready`).catch(() => null))?.status === 200);

  async function get<Data>(path: string): Promise<Data> {
    const answer = (await (await fetch(`${url}/api/v1/${path}`)).json()) as { data: Data; error?: string };
    if (answer.error !== undefined) throw new Error(answer.error);
    return answer.data;
  }
  return {
    scrape,
    async query(expr) {
      const { result } = await get<{ result: { metric: Record<string, string>; value: [number, string] }[] }>(
        `query?query=${encodeURIComponent(expr)}`,
      );
      return result.map(({ metric, value }) => ({ labels: metric, value: Number(value[1]) }));
    },
    async firing() {
      const { alerts } = await get<{ alerts: (FiringAlert & { state: string })[] }>('alerts');
      return alerts.filter(({ state }) => state === 'firing');
    },
  };
}

/** Ours, but for where the replicas are found and how often they are looked at. */
function configuration(folder: string): string {
  const text = readFileSync(join(ROOT, 'deploy/prometheus/prometheus.yaml'), 'utf8');
  const {
    global,
    scrape_configs: jobs,
    ...rest
  } = parse(text) as {
    global: object;
    scrape_configs: object[];
  };
  const found = { file_sd_configs: [{ files: [join(folder, 'targets.json')] }] };
  return stringify({
    ...rest,
    global: { ...global, scrape_interval: `${INTERVAL}s`, evaluation_interval: `${INTERVAL}s` },
    scrape_configs: jobs.map((job) => ({ ...job, dns_sd_configs: [], ...found })),
  });
}

/** Our rules, each expression as it is. */
function rulesAtOnce(): string {
  const { file, alerts } = readRules();
  for (const alert of alerts) delete alert.for;
  return stringify(file);
}

function argumentsFor(folder: string, url: string): string[] {
  return [
    `--config.file=${folder}/prometheus.yaml`,
    `--storage.tsdb.path=${folder}/data`,
    `--web.listen-address=${new URL(url).host}`,
    '--log.level=error',
  ];
}
