import type { AuthError } from '../../domain/errors.ts';
import type { StoreError } from '../../telemetry/store-cause.ts';
import type { AskRedis } from './ask.ts';
import { atEndOfTurn } from './connection/end-of-turn.ts';
import type { TokenScript } from './connection/scripts.ts';

/** One token of a call. */
interface Entry {
  /** The keys of the token and its user. */
  keys: readonly [string, string];
  /** What the script's `handleToken` takes: one text, because each argument costs the client as much as a field. */
  text: string;
  resolve: (fields: string[]) => void;
  reject: (cause: unknown) => void;
}

/** The most tokens of a call: Redis does nothing else meanwhile (ADR 30). */
const LIMITS: Record<TokenScript, number> = { check: 32, rotate: 16 };

/**
 * Runs a script for many tokens. All tokens of one turn of the event loop share a call; in a cluster each has its own,
 * because a script may use the keys of one slot only.
 * @returns the fields of the token's reply. @throws AuthError `unavailable`
 */
export function makeSharedCalls(
  script: TokenScript,
  { ask, replyError }: Pick<AskRedis, 'ask' | 'replyError'>,
  isCluster: boolean,
): (keys: Entry['keys'], text: string) => Promise<string[]> {
  let limit = isCluster ? 1 : LIMITS[script];
  let waiting: Entry[] = [];

  function send(entries: readonly Entry[]): Promise<string[]> {
    const keys = entries.flatMap((entry) => entry.keys);
    return ask(script, keys.length, ...keys, ...entries.map(({ text }) => text));
  }

  async function sendAll(entries: readonly Entry[]): Promise<string[]> {
    try {
      return await send(entries);
    } catch (error) {
      // REDIS_URL names a node of a cluster, which serves all slots. Redis has run nothing.
      if (codeOf(error as AuthError) !== 'CROSSSLOT' || entries.length === 1) throw error;
      limit = 1;
      const replies = await Promise.all(entries.map((entry) => send([entry])));
      return replies.flat();
    }
  }

  async function flush(): Promise<void> {
    const entries = waiting;
    if (entries.length === 0) return;
    waiting = [];
    try {
      const replies = await sendAll(entries);
      if (replies.length !== entries.length)
        throw new Error(`${replies.length} replies for ${entries.length} tokens`);
      entries.forEach(({ resolve, reject }, i) => {
        // One string is far cheaper to receive than a list.
        const fields = (replies[i] ?? '').split('\0');
        if (fields[0] === 'failed') reject(replyError(fields[1] ?? ''));
        else resolve(fields);
      });
    } catch (cause) {
      for (const { reject } of entries) reject(cause);
    }
  }

  return (keys, text) =>
    new Promise((resolve, reject) => {
      const count = waiting.push({ keys, text, resolve, reject });
      if (count >= limit) void flush();
      else if (count === 1) atEndOfTurn(() => void flush());
    });
}

function codeOf({ cause }: AuthError): string | undefined {
  return (cause as StoreError | undefined)?.code;
}
