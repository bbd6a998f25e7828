import { Cluster, Command, type Redis } from 'ioredis';
import { orUnavailable } from './errors.ts';

/** The connections to masters that a client has at the moment. */
export interface Connections {
  /** One object each, never the same again after a reconnect; none while Redis is away. */
  current(): readonly object[];
  /** Whatever may have changed them. */
  onChange(listener: () => void): void;
  /**
   * Writes to every master. One that was demoted or cut off may keep our connection and answer what only reads, with
   * tombstones missing: the write that it refuses ends the connection.
   * @throws AuthError `unavailable`
   */
  check(): Promise<void>;
}

/** How many names are tried until every master has a key of its own. */
const MAX_NAMES = 100_000;
/** Seconds that a written key stays. */
const TTL = 60;

/** @param prefix REDIS_PREFIX. */
export function makeConnections(client: Redis | Cluster, prefix: string): Connections {
  const write = (key: string) => orUnavailable(client.set(key, '1', 'EX', TTL));
  if (client instanceof Cluster) {
    return {
      current: () => (client.status === 'ready' ? client.nodes('master') : []),
      onChange: (listener) => {
        for (const event of ['ready', 'refresh', '+node', '-node', 'close']) client.on(event, listener);
      },
      check: async () => {
        await Promise.all(keyOfEachMaster(client, prefix).map(write));
      },
    };
  }

  let current: readonly object[] = client.status === 'ready' ? [{}] : [];
  client.on('ready', () => (current = [{}]));
  client.on('close', () => (current = []));
  return {
    current: () => current,
    onChange: (listener) => {
      client.on('ready', listener).on('close', listener);
    },
    check: async () => {
      await write(`${prefix}writable`);
    },
  };
}

/** A key in a slot of each master. */
function keyOfEachMaster({ slots }: Cluster, prefix: string): string[] {
  const keys = new Map<string, string>();
  const masters = new Set(slots.map(([master]) => master));
  for (let i = 0; keys.size < masters.size && i < MAX_NAMES; i++) {
    const key = `${prefix}writable:{${i}}`;
    const master = holderOf(key, slots);
    if (master !== undefined && !keys.has(master)) keys.set(master, key);
  }
  return [...keys.values()];
}

/** The name of the master that holds a key; the one of no cluster has none. */
export function masterOf(client: Redis | Cluster, key: string): string {
  return client instanceof Cluster ? (holderOf(key, client.slots) ?? '') : '';
}

function holderOf(key: string, slots: Cluster['slots']): string | undefined {
  return slots[new Command('set', [key]).getSlot()]?.[0];
}
