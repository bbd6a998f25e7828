import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import type { Environment } from '../../src/config/config.ts';
import { freePort } from './free-port.ts';
import { existing, startRedis, type RedisServer } from './redis-server.ts';
import { until } from './until.ts';

/** Three masters with one replica each. After a second without its master, a replica takes over. */
export interface ClusterServers {
  /** The service's settings for it. */
  env: Environment;
  nodes: RedisServer[];
  /** The master of a key's slot and its replicas, as one node sees them. */
  ownerOf(key: string, asked?: RedisServer): Promise<{ master: RedisServer; replicas: RedisServer[] }>;
  /** Resolves once all others agree that another node owns the key's slot. */
  failedOverFrom(old: RedisServer, key: string): Promise<RedisServer>;
  /** Makes a replica of the key's master take over while all nodes are healthy. */
  failOver(key: string): Promise<RedisServer>;
  /** Moves a key's slot with its keys to another master. */
  moveSlot(key: string): Promise<RedisServer>;
}

const MASTERS = 3;
const SLOTS = 16_384;

/** One node that serves all slots. */
export async function startOneNodeCluster(t: Test): Promise<RedisServer> {
  const bus = ['--cluster-port', String(await freePort()), '--cluster-announce-ip', '127.0.0.1'];
  const node = await startRedis(t, { args: ['--cluster-enabled', 'yes', ...bus] });
  await node.ask('CLUSTER', 'ADDSLOTSRANGE', 0, SLOTS - 1);
  await until(async () => String(await node.ask('CLUSTER', 'INFO')).includes('cluster_state:ok'));
  return node;
}

/** @param args for each node. */
export async function startCluster(t: Test, ...args: string[]): Promise<ClusterServers> {
  const plan = await Promise.all(
    Array.from({ length: 2 * MASTERS }, async (_, i) => ({
      id: String(i + 1).padStart(40, '0'),
      master: i < MASTERS ? null : String(i + 1 - MASTERS).padStart(40, '0'),
      port: await freePort(),
      bus: await freePort(),
    })),
  );
  const nodes = await Promise.all(plan.map((node) => startNode(t, node, plan, args)));
  const idOf = (node: RedisServer) => existing(plan[nodes.indexOf(node)]).id;
  for (const replica of nodes.slice(MASTERS)) {
    await until(async () => (await replica.info('master_link_status')) === 'up');
  }
  for (const node of nodes) {
    await until(async () => isWhole(String(await node.ask('CLUSTER', 'INFO')), await slotsOf(node)));
  }

  const ownerOf: ClusterServers['ownerOf'] = async (key, asked = existing(nodes[0])) => {
    const slot = await slotOf(asked, key);
    const range = (await slotsOf(asked)).find(([from, to]) => from <= slot && slot <= to);
    const [master, ...replicas] = ((range?.slice(2) ?? []) as [string, number][]).map(([, port]) =>
      existing(nodes.find((node) => node.port === port)),
    );
    return { master: existing(master), replicas };
  };
  const failedOverFrom = async (old: RedisServer, key: string) => {
    for (const witness of nodes) {
      if (witness !== old) await until(async () => (await ownerOf(key, witness)).master !== old);
    }
    const [witness] = nodes.filter((node) => node !== old);
    return (await ownerOf(key, witness)).master;
  };

  return {
    env: {
      REDIS_MODE: 'cluster',
      REDIS_URL: 'redis://ignored',
      REDIS_NODES: nodes.map(({ port }) => `127.0.0.1:${port}`).join(','),
    },
    nodes,
    ownerOf,
    failedOverFrom,
    async failOver(key) {
      const { master, replicas } = await ownerOf(key);
      await existing(replicas[0]).ask('CLUSTER', 'FAILOVER');
      return failedOverFrom(master, key);
    },
    async moveSlot(key) {
      const { master: from } = await ownerOf(key);
      const slot = await slotOf(from, key);
      const masters = (await slotsOf(from)).map((range) => (range[2] as [string, number])[1]);
      const to = existing(nodes.find((node) => node !== from && masters.includes(node.port)));
      await to.ask('CLUSTER', 'SETSLOT', slot, 'IMPORTING', idOf(from));
      await from.ask('CLUSTER', 'SETSLOT', slot, 'MIGRATING', idOf(to));
      const keys = (await from.ask('CLUSTER', 'GETKEYSINSLOT', slot, 10_000)) as string[];
      if (keys.length > 0) await from.ask('MIGRATE', '127.0.0.1', to.port, '', 0, 5000, 'KEYS', ...keys);
      for (const node of [to, from]) await node.ask('CLUSTER', 'SETSLOT', slot, 'NODE', idOf(to));
      return to;
    },
  };
}

interface PlannedNode {
  id: string;
  /** The master of this replica; null for a master. */
  master: string | null;
  port: number;
  bus: number;
}

/** Starts a node that already knows the cluster: discovery takes nodes ten seconds. */
async function startNode(
  t: Test,
  node: PlannedNode,
  plan: PlannedNode[],
  args: string[],
): Promise<RedisServer> {
  const config = [
    ...plan.map((each, i) => nodeLine(each, i, each === node)),
    `vars currentEpoch ${MASTERS} lastVoteEpoch 0`,
  ];
  const cluster = [
    '--cluster-enabled',
    'yes',
    '--cluster-config-file',
    'nodes.conf',
    '--cluster-node-timeout',
    '1000',
  ];
  const ports = [
    '--cluster-port',
    String(node.bus),
    '--repl-diskless-sync-delay',
    '0',
    '--repl-ping-replica-period',
    '1',
  ];
  return startRedis(t, {
    port: node.port,
    args: [...cluster, ...ports, ...args],
    prepare: (folder) => {
      writeFileSync(join(folder, 'nodes.conf'), `${config.join('\n')}\n`);
    },
  });
}

/** A line of nodes.conf; see `CLUSTER NODES`. */
function nodeLine({ id, master, port, bus }: PlannedNode, index: number, isMyself: boolean): string {
  const flags = `${isMyself ? 'myself,' : ''}${master ? 'slave' : 'master'}`;
  const share = Math.ceil(SLOTS / MASTERS);
  const slots = master ? '' : ` ${index * share}-${Math.min((index + 1) * share, SLOTS) - 1}`;
  const epoch = (index % MASTERS) + 1;
  return `${id} 127.0.0.1:${port}@${bus} ${flags} ${master ?? '-'} 0 0 ${epoch} connected${slots}`;
}

async function slotOf(node: RedisServer, key: string): Promise<number> {
  return Number(await node.ask('CLUSTER', 'KEYSLOT', key));
}

type SlotRange = [number, number, ...unknown[]];

async function slotsOf(node: RedisServer): Promise<SlotRange[]> {
  return (await node.ask('CLUSTER', 'SLOTS')) as SlotRange[];
}

/** Whether a node serves, and knows every master and replica. */
function isWhole(info: string, slots: SlotRange[]): boolean {
  return (
    info.includes('cluster_state:ok') &&
    slots.length === MASTERS &&
    slots.every((range) => range.length === 4)
  );
}
