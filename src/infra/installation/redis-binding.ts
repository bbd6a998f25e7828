import type { FastifyBaseLogger } from 'fastify';
import { AuthError, ignoreOutage } from '../../domain/errors.ts';
import type { Objection, Standing } from '../../domain/standing.ts';
import type { Connections } from '../redis/connection/connections.ts';
import { isSame } from '../redis/connection/replay-gate.ts';
import { makeAnswering } from './answering.ts';
import { FREE_AFTER, STEADY, isSilent, judge, type Recorded, type RedisMark } from './binding.ts';
import { INTERVAL, type Marks } from './marks.ts';
import type { HeldMark, RedisMarks } from './redis-marks.ts';

/** Keeps one Redis and one database together (docs/adr/0026-one-redis-one-database.md). */
export interface RedisBinding {
  standing: Standing;
  /** Whether Redis behind these connections was found to be this database's. */
  admits: (connections: readonly object[]) => boolean;
  /**
   * Compares Redis with the database, claims a Redis that is free, and keeps the marks going.
   * @throws AuthError `unavailable` if a store does not answer, which changes nothing, or if Redis is not ours.
   */
  look(): Promise<void>;
}

interface RedisBindingParts {
  marks: Marks;
  redisMarks: RedisMarks;
  connections: Pick<Connections, 'current'>;
  /** Milliseconds; only differences count. */
  monotonic: () => number;
  logger: Pick<FastifyBaseLogger, 'error' | 'info'>;
}

/**
 * A replica records no mark before it has served for this time, in milliseconds. By then, a database that was copied
 * while its original served has seen a mark that it does not know. Otherwise the copy's marks could shut out the original.
 */
const PROBATION = 2 * INTERVAL;

const UNSEEN: Objection = {
  about: 'REDIS_URL',
  problem: 'this replica has not compared Redis with the database yet',
  action: 'wait; if it stays so, see `database` and `sessions`',
};

const MISSING: Objection = {
  about: 'REDIS_URL',
  problem: `it is not set here, and other replicas serve with a Redis, or did so within the last ${FREE_AFTER}`,
  action: 'give this replica the REDIS_URL, REDIS_NODES and REDIS_PREFIX of the others',
};

/** Reads the record, and tells whether nobody has been seen to serve for long enough. */
function makeReader(marks: Pick<Marks, 'read'>, monotonic: () => number) {
  const silence = makeAnswering(monotonic);
  return async (held: readonly string[]) => {
    const recorded = await marks.read(held).catch((error: unknown) => {
      silence.failed();
      throw error;
    });
    if (isSilent(recorded.quietFor)) silence.answered();
    else silence.failed();
    return { recorded, isSteady: (silence.since() ?? 0) >= STEADY };
  };
}

/** Of a replica that keeps its sessions in memory: it does not serve beside others that have a Redis. */
export function makeRedisAbsence({
  marks,
  monotonic,
  logger,
}: {
  marks: Pick<Marks, 'read'>;
} & Pick<RedisBindingParts, 'monotonic' | 'logger'>): Pick<RedisBinding, 'standing' | 'look'> {
  const read = makeReader(marks, monotonic);
  let objection: Objection | null = null;
  return {
    standing: { objection: () => objection },
    async look() {
      const { recorded, isSteady } = await read([]);
      const found = recorded.id === null || isSteady ? null : MISSING;
      if (found && !objection) logger.error(found, 'this replica may not serve');
      if (!found && objection) logger.info('no replica serves with a Redis any more: this one may serve');
      objection = found;
    },
  };
}

export function makeRedisBinding({
  marks,
  redisMarks,
  connections,
  monotonic,
  logger,
}: RedisBindingParts): RedisBinding {
  const former = new Set<string>();
  const readRecord = makeReader(marks, monotonic);
  let bound: string | null = null;
  let admitted: { connections: readonly object[]; since: number } | null = null;
  let objection: Objection | null = null;
  let looking: Promise<void> | null = null;

  function admit(id: string, current: readonly object[]): void {
    if (objection) logger.info('Redis belongs to this database now: this replica may serve');
    objection = null;
    if (bound !== null && bound !== id) former.add(bound);
    former.delete(id);
    bound = id;
    admitted = { connections: current, since: admitted?.since ?? monotonic() };
  }

  function object(found: Objection): never {
    if (objection !== found) logger.error(found, 'this replica may not serve');
    objection = found;
    admitted = null;
    throw new AuthError('unavailable');
  }

  /** @returns the new id; null if another replica was faster. */
  async function claim(
    masters: readonly HeldMark[],
    recorded: Recorded,
    ifSilent: boolean,
  ): Promise<string | null> {
    // A failover of PostgreSQL may lose a new mark, and Redis would hold one that nobody knows.
    const mark = recorded.before ?? recorded.newest ?? (await marks.add());
    let labelled = Promise.resolve(false);
    const label = (redisMark: RedisMark) => {
      labelled = redisMarks.set(masters, redisMark);
      return labelled.catch(() => false);
    };
    const id = await marks.claim(recorded.id, mark, label, ifSilent);
    // The failure is Redis's, not PostgreSQL's.
    await labelled;
    if (id === null) return null;
    logger.info({ former: recorded.id }, 'the database names this Redis under a new id');
    return id;
  }

  /** Redis takes the mark before the newest, and the next follows only then: a full Redis keeps one that is recorded. */
  async function goOn(id: string, masters: readonly HeldMark[], recorded: Recorded): Promise<void> {
    const { newest, before, quietFor } = recorded;
    const mark = before ?? newest;
    const behind = masters.filter(({ held }) => held === null || ![newest, before].includes(held.mark));
    if (quietFor === null || Math.abs(quietFor) >= INTERVAL) {
      const isTrusted = admitted !== null && monotonic() - admitted.since >= PROBATION;
      await marks.beat(id, isTrusted && behind.length === 0);
      await redisMarks.renew(masters);
    }
    if (mark !== null && behind.length > 0) await redisMarks.set(behind, { id, mark });
  }

  async function read() {
    const masters = await redisMarks.read();
    // Of a cluster, no slot is known yet.
    if (masters.length === 0) throw new AuthError('unavailable');
    const held = masters.map((master) => master.held);
    const { recorded, isSteady } = await readRecord(held.flatMap((mark) => mark?.mark ?? []));
    return { masters, recorded, verdict: judge(held, recorded, { bound, former, isSteady }) };
  }

  async function compare(): Promise<void> {
    const current = connections.current();
    // A command without a connection would wait for one.
    if (current.length === 0) throw new AuthError('unavailable');
    let found = await read();
    // Another replica may have claimed Redis between the two readings.
    if ('objection' in found.verdict) found = await read();
    const { masters, recorded, verdict } = found;
    if ('objection' in verdict) object(verdict.objection);
    if (verdict.is === 'claim') {
      const id = await claim(masters, recorded, verdict.ifSilent);
      if (id === null) throw new AuthError('unavailable');
      admit(id, current);
      return;
    }
    const { id } = recorded;
    if (id === null) return;
    admit(id, current);
    // A full Redis takes no mark, and serves what it holds.
    await goOn(id, masters, recorded).catch(ignoreOutage);
  }

  async function lookOnce(): Promise<void> {
    try {
      await compare();
    } catch (error) {
      // Redis fails, and a replica with a wrong one must not take our place meanwhile.
      if (bound !== null && objection === null) await marks.beat(bound, false).catch(ignoreOutage);
      throw error;
    }
  }

  return {
    standing: {
      // Without a connection nothing can be written to a Redis that may be another's.
      objection: () => objection ?? (bound === null && connections.current().length > 0 ? UNSEEN : null),
    },
    admits: (open) => admitted !== null && isSame(admitted.connections, open),
    look() {
      looking ??= lookOnce().finally(() => (looking = null));
      return looking;
    },
  };
}
