import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { sql } from '../../../test/support/sql.ts';
import { DOCS, print, save } from '../../table.ts';
import { CONNECTIONS } from '../operations.ts';
import { amount } from '../settings.ts';
import type { World } from '../world.ts';
import { entriesOf, makePeersDocument, type PeerEntry, type PeersDocument } from './document.ts';
import { glewlwydMissing, startGlewlwyd } from './glewlwyd.ts';
import { installPeers } from './install.ts';
import { startLatchkey } from './latchkey.ts';
import { startNodePeers } from './node-peers.ts';
import { runInTurns } from './rounds.ts';
import { entrantsIn, PEER_OPERATIONS, type BenchedServer } from './servers.ts';
import { FIGURES, peerFigures, peersPicture, peersText } from './tables.ts';
import { countWork } from './work.ts';

const WARM_UP_SECONDS = 1.5;
/** Enough requests of the slowest peer to see what each of them costs. */
const COUNTED_SECONDS = 1;

/**
 * `npm run bench -- --peers`: the service beside what people would pick instead, in turns.
 * @param loadBefore the load average before the run
 * @returns the exit code: 1 if a goal is missed (settings.ts).
 */
export async function benchPeers(
  world: World,
  flags: { json: boolean; save: boolean; smoke: boolean },
  loadBefore: number,
): Promise<number> {
  const document = await measurePeers(world, flags.smoke, loadBefore);
  await print(flags.json, document, peersText(document));
  if (flags.save) {
    await save(peerFigures(document), { name: FIGURES, result: document });
    writeFileSync(join(DOCS, 'images/peers.svg'), peersPicture(document));
  }
  return document.limits.every(({ isMet }) => isMet) ? 0 : 1;
}

async function measurePeers(world: World, isSmoke: boolean, loadBefore: number): Promise<PeersDocument> {
  const settings = {
    connections: CONNECTIONS,
    rounds: amount('BENCH_PEER_ROUNDS', isSmoke),
    seconds: amount('BENCH_PEER_SECONDS', isSmoke),
  };
  const missing = glewlwydMissing();
  const servers = await startServers(world, missing === null);
  try {
    const entries: PeerEntry[] = [];
    for (const operation of PEER_OPERATIONS) {
      const entrants = entrantsIn(operation, servers);
      await runInTurns(entrants, { ...settings, warmUpSeconds: isSmoke ? 0.2 : WARM_UP_SECONDS });
      const counting = { redisUrl: world.env.REDIS_URL ?? '', seconds: COUNTED_SECONDS };
      entries.push(...entriesOf(operation, entrants, isSmoke ? null : await countWork(entrants, counting)));
    }
    const stores = await storesOf(world);
    return makePeersDocument(
      { settings, loadBefore, stores, entries, missing: missing === null ? [] : [missing] },
      !isSmoke,
    );
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
  }
}

async function startServers(world: World, hasGlewlwyd: boolean): Promise<BenchedServer[]> {
  const installed = installPeers();
  const servers: BenchedServer[] = [];
  try {
    servers.push(await startLatchkey(world));
    servers.push(...(await startNodePeers(world, installed)));
    if (hasGlewlwyd) servers.push(await startGlewlwyd(world));
    return servers;
  } catch (error) {
    await Promise.all(servers.map((server) => server.stop()));
    throw error;
  }
}

/** Versions of the stores, and whether a commit waits for the disk. */
async function storesOf({ env }: World): Promise<string> {
  const [row] = await sql<{ version: string; fsync: string; waits: string }>(
    env.DATABASE_URL ?? '',
    "SELECT current_setting('server_version') AS version, current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS waits",
  );
  const redis = new Redis(env.REDIS_URL ?? '');
  try {
    const version = /^redis_version:(.*)\r$/m.exec(await redis.info('server'))?.[1] ?? '';
    const { version: postgres, fsync, waits } = row ?? { version: '', fsync: '', waits: '' };
    return `PostgreSQL ${postgres.split(' ')[0] ?? ''} with fsync ${fsync} and synchronous_commit ${waits}, Redis ${version}`;
  } finally {
    redis.disconnect();
  }
}
