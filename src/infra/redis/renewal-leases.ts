import { AuthError } from '../../domain/errors.ts';
import type { HeldLease, RenewalLeases } from '../../domain/tokens/ports.ts';
import { keyOfEachMaster, masterOf } from './connection/connections.ts';
import { orUnavailable } from './connection/errors.ts';
import type { ReplayGate } from './connection/replay-gate.ts';
import type { Argument, ScriptedCluster, ScriptedRedis } from './connection/scripts.ts';
import { makeFeedKey } from './revocation-feed.ts';
import { makeTokenKeys } from './token-states.ts';

/** Seconds to keep a lease. It decides nothing (ADR 28): in a cluster, one may be left behind when slots move. */
const TTL = 3600;

/** The leases in Redis (lua/lease.lua). A master is named by the key of its lease. @param options.prefix REDIS_PREFIX. */
export function makeRedisRenewalLeases(
  redis: ScriptedRedis | ScriptedCluster,
  { prefix, gate }: { prefix: string; gate: Pick<ReplayGate, 'isAdmitted'> },
): RenewalLeases {
  const keys = makeTokenKeys(prefix);
  const feedKey = makeFeedKey(prefix)('state');
  const areTogether = (one: string, other: string) => masterOf(redis, one) === masterOf(redis, other);
  async function run(master: string, args: Argument[]): Promise<HeldLease> {
    if (!gate.isAdmitted()) throw new AuthError('unavailable');
    const [replica, moves, server, full, id] = await orUnavailable(redis.lease(master, ...args));
    const lease = moves === '' ? null : { replica, moves: Number(moves), server, full: Number(full) };
    return { lease, server: id };
  }
  return {
    masters: () => keyOfEachMaster(redis, `${prefix}renewer`),
    isThere: (master, userId) => areTogether(master, keys.user(userId)),
    hasFeed: (master) => areTogether(master, feedKey),
    look: (master, self) => run(master, [self]),
    async move(master, from, { replica, moves, server, full }) {
      const seen = [from?.replica ?? '', from?.moves ?? ''];
      return (await run(master, [replica, ...seen, TTL, moves, server, full])).lease;
    },
  };
}
