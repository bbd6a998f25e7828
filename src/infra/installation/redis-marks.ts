import { keyOfEachMaster } from '../redis/connection/connections.ts';
import { orUnavailable } from '../redis/connection/errors.ts';
import type { ScriptedCluster, ScriptedRedis } from '../redis/connection/scripts.ts';
import type { RedisMark } from './binding.ts';
import { KNOWN_FOR } from './marks.ts';

/** The mark of one master, as it was read. */
export interface HeldMark {
  key: string;
  /** null if there is none; of what is no mark of ours, an empty id and mark, which no database knows. */
  held: RedisMark | null;
  /** For a comparison by set-mark.lua. */
  text: string;
}

/** What Redis holds of an installation: the same id and mark on each master, so that none can be another's. */
export interface RedisMarks {
  /** @throws AuthError `unavailable` */
  read(): Promise<HeldMark[]>;
  /**
   * Sets the mark of these masters, unless one has changed since it was read.
   * @returns whether all are set now.
   * @throws AuthError `unavailable`
   */
  set(masters: readonly HeldMark[], mark: RedisMark): Promise<boolean>;
  /** Keeps the marks of these masters. A full Redis does that too. @throws AuthError `unavailable` */
  renew(masters: readonly HeldMark[]): Promise<void>;
}

/**
 * Expiry of a mark in seconds: four hours before PostgreSQL forgets it. In a cluster the names of keys depend on which master has
 * which slot, so a mark may be left behind, and be found again when the slots have moved back.
 */
const TTL = KNOWN_FOR / 1000 - 4 * 3600;

/** @param prefix REDIS_PREFIX. */
export function makeRedisMarks(client: ScriptedRedis | ScriptedCluster, prefix: string): RedisMarks {
  return {
    async read() {
      const keys = keyOfEachMaster(client, `${prefix}mark`);
      const texts = await orUnavailable(Promise.all(keys.map((key) => client.get(key))));
      return keys.map((key, i) => {
        const text = texts[i] ?? '';
        return { key, held: text === '' ? null : parse(text), text };
      });
    },
    async set(masters, { id, mark }) {
      const value = `${id} ${mark}`;
      const replies = await orUnavailable(
        Promise.all(masters.map(({ key, text }) => client.setMark(key, text, value, TTL))),
      );
      return replies.every((reply) => reply === 1);
    },
    async renew(masters) {
      await orUnavailable(Promise.all(masters.map(({ key }) => client.expire(key, TTL))));
    },
  };
}

function parse(text: string): RedisMark {
  const [, id = '', mark = ''] = /^([\w-]{22}) ([\w-]{22})$/.exec(text) ?? [];
  return { id, mark };
}
