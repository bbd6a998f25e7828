import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import type { Environment } from '../../../src/config/config.ts';
import { testFolder } from '../../support/folder.ts';
import { faultProxy, type FaultProxy } from '../../support/fault-proxy.ts';
import { aSecret, KEYS } from '../../support/keys.ts';
import { startPostgres, type OwnPostgres } from '../../support/own-postgres.ts';
import { startPrometheus, type Prometheus } from './prometheus.ts';
import { startRedis, type RedisServer } from '../../support/redis-server.ts';
import { readyService, type Launch, type Service } from '../../support/service.ts';
import { eventually } from '../../support/until.ts';

/** A replica with its own proxies to the stores, so that a test can cut it off alone. */
export interface ObservedReplica extends Service {
  redis: FaultProxy;
  database: FaultProxy;
}

/** Stores, replicas, and a Prometheus with a changing list of targets. */
export interface ObservedSite {
  prometheus: Prometheus;
  postgres: OwnPostgres;
  redis: RedisServer;
  /** REFRESH_TOKEN_SECRET of its replicas. */
  secret: string;
  /** Starts another replica on these stores; it is not scraped yet. */
  start(env?: Environment, launch?: Launch): Promise<ObservedReplica>;
  /** Sets the replicas that Prometheus scrapes. @param namespace of an installation. */
  scrape(namespace: string, ...replicas: Service[]): void;
  /** Removes all replicas from Prometheus. */
  scrapeNone(): void;
  /** Makes another key sign, with this date in its file name. @param date YYYY-MM-DD */
  signWithKeyOf(date: string): void;
  /** Resolves once these alerts fire for the installation. @param namespace undefined if the alert has none. */
  fire(namespace: string | undefined, ...alerts: string[]): Promise<void>;
  /** Resolves once none of these alerts fires. */
  calm(namespace: string, ...alerts: string[]): Promise<void>;
  /** Every alert that has fired. */
  seen: ReadonlySet<string>;
}

/** The installation of most tests. */
export const USUAL = 'usual';

/** Its REFRESH_RETRY_WINDOW, in seconds. */
export const RETRY_WINDOW = 2;

/** The date format in the names of key files. */
export const today = () => new Date().toISOString().slice(0, 10);

/** Seconds within which an alert must fire on a busy machine. */
const PATIENCE = 150;

export async function startSite(t: Test): Promise<ObservedSite> {
  const folder = testFolder(t);
  const signWithKeyOf = (date: string) => {
    for (const name of readdirSync(folder)) rmSync(join(folder, name));
    writeFileSync(join(folder, `${date}.pem`), KEYS.ES256(), { mode: 0o600 });
  };
  signWithKeyOf(today());
  const secret = aSecret();
  const [prometheus, postgres, redis] = await Promise.all([
    startPrometheus(t),
    startPostgres(t),
    startRedis(t),
  ]);
  const targets: Record<string, string[]> = {};
  const seen = new Set<string>();

  async function firing(namespace: string | undefined): Promise<Set<string>> {
    const alerts = (await prometheus.firing()).filter(({ labels }) => labels.namespace === namespace);
    const names = alerts.map(({ labels, annotations }) => {
      // A template that fails to expand contains angle brackets.
      const text = Object.values(annotations).find((each) => /<|%!/.test(each));
      if (text !== undefined) throw new Error(`${labels.alertname} says ${text}`);
      return labels.alertname;
    });
    for (const name of names) seen.add(name);
    return new Set(names);
  }

  return {
    prometheus,
    postgres,
    redis,
    seen,
    secret,
    async start(env = {}, launch) {
      const toRedis = await faultProxy(t, redis.url);
      const toDatabase = await faultProxy(t, postgres.url());
      const own = {
        DATABASE_URL: toDatabase.url,
        DATABASE_POOL: '5',
        REDIS_URL: toRedis.url,
        REDIS_TIMEOUT: '2000',
        SIGNING_KEYS_DIR: folder,
        REFRESH_TOKEN_SECRET: secret,
        REFRESH_RETRY_WINDOW: String(RETRY_WINDOW),
        RATE_LIMIT_LOGIN: '400/600',
        TRUST_PROXY: 'loopback',
      };
      const service = await readyService(t, { ...own, ...env }, launch);
      return { ...service, redis: toRedis, database: toDatabase };
    },
    scrape(namespace, ...replicas) {
      targets[namespace] = replicas.map(({ opsUrl }) => opsUrl);
      prometheus.scrape(targets);
    },
    scrapeNone() {
      prometheus.scrape({});
    },
    signWithKeyOf,
    async fire(namespace, ...alerts) {
      await eventually(PATIENCE, async () => {
        const now = await firing(namespace);
        const missing = alerts.filter((name) => !now.has(name));
        return missing.length === 0 ? null : `${missing.join(', ')} not firing`;
      });
    },
    async calm(namespace, ...alerts) {
      await eventually(PATIENCE, async () => {
        const now = await firing(namespace);
        const left = alerts.filter((name) => now.has(name));
        return left.length === 0 ? null : `${left.join(', ')} still fire`;
      });
    },
  };
}
