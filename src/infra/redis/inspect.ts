import { Cluster, type Redis } from 'ioredis';

/** Facts about one master. */
export interface RedisFacts {
  /** HOST:PORT of the connection. */
  address: string;
  /** A field of INFO. */
  info: (field: string) => string | undefined;
  /** A setting; null if the Redis user may not run CONFIG GET. */
  config: (name: SettingName) => string | null;
  /** Its clock, in milliseconds since 1970. */
  now: () => Promise<number>;
}

/** Settings that INFO does not report. */
const SETTINGS = ['save', 'min-replicas-max-lag', 'cluster-require-full-coverage'] as const;

export type SettingName = (typeof SETTINGS)[number];

/** Asks the server, or every master of a cluster. Rejects with the driver's own errors. */
export function inspectRedis(client: Redis | Cluster): Promise<RedisFacts[]> {
  return Promise.all((client instanceof Cluster ? client.nodes('master') : [client]).map(inspectServer));
}

async function inspectServer(server: Redis): Promise<RedisFacts> {
  const info = new Map(
    [...(await server.info()).matchAll(/^(\w+):(.*?)\r?$/gm)].map(([, name, value]) => [name, value]),
  );
  const settings = new Map<SettingName, string | null>();
  for (const name of SETTINGS) settings.set(name, await settingOf(server, name));
  const { remoteAddress = '', remotePort = 0 } = server.stream;
  return {
    address: `${remoteAddress}:${remotePort}`,
    info: (field) => info.get(field),
    config: (name) => settings.get(name) ?? null,
    async now() {
      const [seconds, micros] = await server.time();
      return Number(seconds) * 1000 + Number(micros) / 1000;
    },
  };
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
