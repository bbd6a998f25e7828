import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { parse, stringify } from 'yaml';
import { readRules, ROOT } from '../../support/alert-rules.ts';
import { testFolder } from '../../support/folder.ts';
import { freePort } from '../../support/free-port.ts';
import { startServerProcess } from '../../support/server-process.ts';
import { toolsMissing } from '../../support/tools.ts';

/** Why the suites that start Prometheus cannot run here, or false. */
export const prometheusMissing = toolsMissing('bash', 'prometheus');

export interface Sample {
  labels: Record<string, string>;
  value: number;
}

export interface FiringAlert {
  labels: Record<string, string> & { alertname: string };
  annotations: Record<string, string>;
}

/** A Prometheus with our configuration and rules. It ends with the test. */
export interface Prometheus {
  /** Sets the targets to scrape. @param targets ops URLs, by the `namespace` label that a cluster adds. */
  scrape(targets: Record<string, readonly string[]>): void;
  /** The current value of an expression. @throws Error if Prometheus refuses it. */
  query(expr: string): Promise<Sample[]>;
  firing(): Promise<FiringAlert[]>;
}

/** Seconds between two scrapes, and between two evaluations. */
const INTERVAL = 1;

/** Removes the `for` of alerts: promtool's tests check it, and here a minute is too long. */
export async function startPrometheus(t: Test): Promise<Prometheus> {
  const folder = testFolder(t);
  const url = `http://127.0.0.1:${await freePort()}`;
  const scrape: Prometheus['scrape'] = (targets) => {
    const groups = Object.entries(targets).map(([namespace, urls]) => ({
      targets: urls.map((each) => new URL(each).host),
      labels: { namespace },
    }));
    // Atomic: Prometheus reads the file whenever it changes.
    writeFileSync(join(folder, 'targets.new'), JSON.stringify(groups));
    renameSync(join(folder, 'targets.new'), join(folder, 'targets.json'));
  };
  scrape({});
  writeFileSync(join(folder, 'prometheus.yaml'), configuration(folder));
  writeFileSync(join(folder, 'rules.yaml'), rulesAtOnce());

  await startServerProcess(t, ['prometheus', ...argumentsFor(folder, url)], {
    answers: async () => (await fetch(`${url}/-/ready`).catch(() => null))?.status === 200,
  });

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

/** Our configuration, with other targets and scrape intervals. */
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

/** Our rules, with unchanged expressions. */
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
