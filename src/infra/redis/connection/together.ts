import type { AuthError } from '../../../domain/errors.ts';
import type { StoreError } from '../../../telemetry/store-cause.ts';
import type { AskRedis } from '../ask.ts';
import { makeBatch } from './batch.ts';
import type { TokenScript } from './scripts.ts';
import { fieldsOf } from '../replies.ts';

/** One token of a call. */
interface Entry {
  /** The keys of the token and its user. */
  keys: readonly [string, string];
  /** What the script's `present` takes: one text, because each argument costs the client as much as a field. */
  text: string;
}

/** The most tokens of a call: Redis does nothing else meanwhile (ADR 30). */
const LIMITS: Record<TokenScript, number> = { check: 32, rotate: 16 };

/**
 * Runs a script for many tokens. All tokens of one turn of the event loop share a call; in a cluster each has its own,
 * because a script may use the keys of one slot only.
 * @returns the fields of the token's reply. @throws AuthError `unavailable`
 */
export function makeTogether(
  script: TokenScript,
  { ask, refused }: Pick<AskRedis, 'ask' | 'refused'>,
  isCluster: boolean,
): (entry: Entry) => Promise<string[]> {
  let limit = isCluster ? 1 : LIMITS[script];

  function send(entries: readonly Entry[]): Promise<string[]> {
    const keys = entries.flatMap((entry) => entry.keys);
    return ask(script, keys.length, ...keys, ...entries.map(({ text }) => text));
  }

  return makeBatch<Entry, string, string[]>({
    limit: () => limit,
    async send(entries) {
      try {
        return await send(entries);
      } catch (error) {
        // REDIS_URL names a node of a cluster, which serves all slots. Redis has run nothing.
        if (codeOf(error as AuthError) !== 'CROSSSLOT' || entries.length === 1) throw error;
        limit = 1;
        const replies = await Promise.all(entries.map((entry) => send([entry])));
        return replies.flat();
      }
    },
    decode(_entry, text) {
      const fields = fieldsOf(text);
      if (fields[0] === 'failed') throw refused(fields[1] ?? '');
      return fields;
    },
  });
}

function codeOf({ cause }: AuthError): string | undefined {
  return (cause as StoreError | undefined)?.code;
}
