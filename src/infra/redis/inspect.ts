import { Cluster, type Redis } from 'ioredis';
import { certificateEnd, earliest } from '../tls/peer-certificate.ts';

/** Facts about one master. */
export interface RedisFacts {
  /** HOST:PORT of the connection. */
  address: string;
  /** The fields of INFO. */
  info: ReadonlyMap<string, string>;
  /** A setting; null if the Redis user may not run CONFIG GET. */
  config: (name: SettingName) => string | null;
  /** Why it runs no script for our user; null if it does. */
  scriptRefusal: string | null;
  /** When its certificate expires, in milliseconds since 1970; null without TLS. */
  certificateEnd: number | null;
  /** Its clock, in milliseconds since 1970. */
  now: () => Promise<number>;
}

/** Settings that INFO does not report. */
const SETTINGS = ['save', 'min-replicas-max-lag', 'cluster-require-full-coverage'] as const;

export type SettingName = (typeof SETTINGS)[number];

/** Asks the server, or every master of a cluster. Rejects with the driver's own errors. */
export function inspectRedis(client: Redis | Cluster): Promise<RedisFacts[]> {
  return Promise.all(mastersOf(client).map(inspectServer));
}

/** The server, or every master of a cluster. */
export function mastersOf(client: Redis | Cluster): Redis[] {
  return client instanceof Cluster ? client.nodes('master') : [client];
}

/** A server's clock, in milliseconds since 1970. */
export async function redisNow(server: Redis): Promise<number> {
  const [seconds, micros] = await server.time();
  return Number(seconds) * 1000 + Number(micros) / 1000;
}

async function inspectServer(server: Redis): Promise<RedisFacts> {
  const info = await infoOf(server);
  const settings = new Map<SettingName, string | null>();
  for (const name of SETTINGS) settings.set(name, await settingOf(server, name));
  const { remoteAddress = '', remotePort = 0 } = server.stream;
  return {
    address: `${remoteAddress}:${remotePort}`,
    info,
    config: (name) => settings.get(name) ?? null,
    scriptRefusal: await scriptRefusalOf(server),
    certificateEnd: certificateEnd(server.stream),
    now: () => redisNow(server),
  };
}

/** When the first certificate of the connected servers expires, in milliseconds since 1970; null without TLS. */
export function redisCertificateEnd(client: Redis | Cluster): number | null {
  const servers = client instanceof Cluster ? client.nodes('all') : [client];
  return earliest(servers.map(({ stream }) => certificateEnd(stream)));
}

/** @param section all if none is named. */
export async function infoOf(server: Redis, section = 'default'): Promise<Map<string, string>> {
  const lines = (await server.info(section)).matchAll(/^(\w+):(.*?)\r?$/gm);
  return new Map([...lines].map(([, name = '', value = '']) => [name, value]));
}

/**
 * The used share of `maxmemory`.
 * @returns 0 without a limit, and if Redis would evict keys instead of refusing writes.
 */
export function memoryShareOf(info: ReadonlyMap<string, string>): number {
  const limit = Number(info.get('maxmemory') ?? 0);
  if (limit === 0 || info.get('maxmemory_policy') !== 'noeviction') return 0;
  return Number(info.get('used_memory') ?? 0) / limit;
}

/** Neither call names a key, so every node of a cluster answers it. */
async function scriptRefusalOf(server: Redis): Promise<string | null> {
  try {
    await server.eval('return 1', 0);
    await server.evalsha('0'.repeat(40), 0);
  } catch (error) {
    if (!(error instanceof Error && error.name === 'ReplyError')) throw error;
    return error.message.startsWith('NOSCRIPT') ? null : error.message;
  }
  return null;
}

async function settingOf(server: Redis, name: SettingName): Promise<string | null> {
  try {
    const reply: unknown = await server.config('GET', name);
    const pair = (Array.isArray(reply) ? reply : Object.entries(reply as object).flat()) as unknown[];
    return pair.length === 2 ? String(pair[1]) : null;
  } catch (error) {
    // An ACL forbids CONFIG, or the provider disabled it.
    if (error instanceof Error && error.name === 'ReplyError') return null;
    throw error;
  }
}
