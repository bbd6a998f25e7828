import type { AuthError } from '../../domain/errors.ts';
import type { Accepted, Superseded, TokenKey, Unusable } from '../../domain/tokens/token-states.ts';
import type { StoreError } from '../../telemetry/store-cause.ts';
import type { AskRedis } from './ask.ts';
import { makeBatch } from './batch.ts';
import { decodeCheck, fieldsOf } from './replies.ts';

export interface Check {
  key: TokenKey;
  /** Of an access token; null for a long-lived token. */
  generation: number | null;
}

/** A script of that many tokens keeps Redis busy for some tenths of a millisecond. */
const LIMIT = 64;

/**
 * Checks tokens. The checks of one turn of the event loop share one call of check.lua; in a cluster each has its own,
 * because a script may use the keys of one slot only.
 * @param names the keys of a token and its user.
 */
export function makeCheck(
  { ask, refused }: Pick<AskRedis, 'ask' | 'refused'>,
  names: (key: TokenKey) => readonly [token: string, user: string],
  isCluster: boolean,
): (check: Check) => Promise<Unusable | Accepted | Superseded> {
  let limit = isCluster ? 1 : LIMIT;

  function sendTogether(checks: readonly Check[]): Promise<string[]> {
    const keys = checks.flatMap(({ key }) => names(key));
    return ask('check', keys.length, ...keys, ...checks.map(({ generation }) => generation ?? ''));
  }

  return makeBatch<Check, string, Unusable | Accepted | Superseded>({
    limit: () => limit,
    async send(checks) {
      try {
        return await sendTogether(checks);
      } catch (error) {
        // REDIS_URL names a node of a cluster, which serves all slots.
        if (codeOf(error as AuthError) !== 'CROSSSLOT' || checks.length === 1) throw error;
        limit = 1;
        const replies = await Promise.all(checks.map((check) => sendTogether([check])));
        return replies.flat();
      }
    },
    decode({ key, generation }, text) {
      const reply = fieldsOf(text);
      if (reply[0] === 'failed') throw refused(reply[1] ?? '');
      return decodeCheck(key.userId, generation, reply);
    },
  });
}

function codeOf({ cause }: AuthError): string | undefined {
  return (cause as StoreError | undefined)?.code;
}
