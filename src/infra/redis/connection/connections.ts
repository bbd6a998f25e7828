import { Cluster, Command, type Redis } from 'ioredis';
import { orUnavailable } from './errors.ts';

/** A client's open connections to masters. */
export interface Connections {
  /** One object per connection, a new one after each reconnect. Empty while Redis is down. */
  current(): readonly object[];
  /** Calls `listener` after every event that may have changed the connections. */
  onChange(listener: () => void): void;
  /**
   * Sends every master a write that a full one takes too. A demoted or isolated master may keep our connection and answer
   * reads without the newest tombstones. It refuses the write, and that ends the connection.
   * @throws AuthError `unavailable`
   */
  checkMasters(): Promise<void>;
  /** Writes a key to every master, which a full one refuses. @throws AuthError `unavailable` */
  checkMemory(): Promise<void>;
}

/** How many key names to try until every master has one. */
const MAX_NAMES = 100_000;
/**
 * The slots of the hash tags {0}, {1} and so on, as far as a search has come. A master that has few slots needs thousands of
 * them, and the slots of a cluster may change while we look, so no list of keys would stay true.
 */
const slotsOfTags: number[] = [];
/** Expiry of a written key, in seconds. */
const TTL = 60;

/** @param prefix REDIS_PREFIX. */
export function makeConnections(client: Redis | Cluster, prefix: string): Connections {
  const keys = () => keyOfEachMaster(client, `${prefix}writable`);
  const checks = {
    checkMasters: async () => {
      await orUnavailable(Promise.all(keys().map((key) => client.del(key))));
    },
    checkMemory: async () => {
      await orUnavailable(Promise.all(keys().map((key) => client.set(key, '1', 'EX', TTL))));
    },
  };
  if (client instanceof Cluster) {
    return {
      current: () => (client.status === 'ready' ? client.nodes('master') : []),
      onChange: (listener) => {
        for (const event of ['ready', 'refresh', '+node', '-node', 'close']) client.on(event, listener);
      },
      ...checks,
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
    ...checks,
  };
}

/** One key for each master: the name, without braces, in a cluster with a hash tag behind it. */
export function keyOfEachMaster(client: Redis | Cluster, name: string): string[] {
  if (!(client instanceof Cluster)) return [name];
  const { slots } = client;
  const keys = new Map<string, string>();
  const masters = new Set(slots.map(([master]) => master));
  for (let i = 0; keys.size < masters.size && i < MAX_NAMES; i++) {
    const tag = `{${i}}`;
    const master = slots[(slotsOfTags[i] ??= slotOf(tag))]?.[0];
    if (master !== undefined && !keys.has(master)) keys.set(master, `${name}:${tag}`);
  }
  return [...keys.values()];
}

/** The name of the master that holds a key; '' outside a cluster. */
export function masterOf(client: Redis | Cluster, key: string): string {
  return client instanceof Cluster ? (holderOf(key, client.slots) ?? '') : '';
}

function holderOf(key: string, slots: Cluster['slots']): string | undefined {
  return slots[slotOf(key)]?.[0];
}

const slotOf = (key: string) => new Command('set', [key]).getSlot();
