import { isIP } from 'node:net';
import { AuthError } from '../../../domain/errors.ts';
import type { StoreFailure } from '../../../telemetry/outcomes.ts';
import { networkCause, StoreError, type Cause } from '../../../telemetry/store-cause.ts';

/** What to do, by the first word of Redis's error; the first match counts. */
const REMEDIES: readonly [RegExp, string][] = [
  [/^(WRONGPASS|NOAUTH|ERR AUTH)/, 'check user and password in REDIS_URL'],
  [
    /^ERR DB index/,
    'REDIS_URL names a database that the server lacks: raise its `databases`, or name another',
  ],
  [/^NOPERM/, 'allow the user of REDIS_URL what it needs (docs/operating.md, "Redis")'],
  [/^(READONLY|MASTERDOWN|NOREPLICAS)/, 'check the replication: no master takes writes here'],
  [/^(OOM|MISCONF)/, 'look at the memory and the disk of the server'],
  [/^(MOVED|CROSSSLOT)/, 'the server is a node of a cluster: set REDIS_MODE=cluster and REDIS_NODES'],
  [/^(LOADING|CLUSTERDOWN)/, 'wait: the server starts, or its cluster is not complete'],
];

const ANNOUNCE_NAMES =
  'name the server by a host that its certificate holds: in REDIS_URL or REDIS_NODES; in a cluster also by `cluster-announce-hostname` with `cluster-preferred-endpoint-type hostname` on each node; with Sentinels by `replica-announce-ip` on each server, and `resolve-hostnames yes` and `announce-hostnames yes` on each Sentinel';

/**
 * Any failure of Redis (down, hung, loading, read-only, full, moving slots) is an outage, and callers get a 503.
 * @param failed receives the cause.
 * @throws AuthError `unavailable`
 */
export async function orUnavailable<Reply>(
  reply: Promise<Reply>,
  failed?: (cause: unknown) => void,
): Promise<Reply> {
  try {
    return await reply;
  } catch (cause) {
    failed?.(cause);
    throw unavailable(cause);
  }
}

/** An outage with its cause, for the log. @param cause an error of ioredis. */
export function unavailable(cause: unknown): AuthError {
  const { code, reason } = causeOf(cause);
  return new AuthError('unavailable', { cause: new StoreError('Redis', code, reason, cause) });
}

/** Classifies an error of ioredis. Replies of Redis have a name of their own; timeouts differ only by their text. */
export function failureOf(cause: unknown): StoreFailure {
  const { name, message = '' } = cause as Partial<Error>;
  if (name === 'ReplyError') return 'reply';
  return /timed out/i.test(message) ? 'timeout' : 'connection';
}

/** Why Redis fails, from an error of ioredis. */
export function causeOf(error: unknown): Cause {
  // An error of a whole cluster holds that of a node.
  const { lastNodeError, message = '' } = error as Partial<Error> & { lastNodeError?: unknown };
  if (lastNodeError !== undefined) return causeOf(lastNodeError);
  const [, todo] = REMEDIES.find(([pattern]) => pattern.test(message)) ?? [];
  const [word = ''] = /^[A-Z]+\b/.exec(message) ?? [];
  if (todo !== undefined) return { code: word, reason: message, todo };
  if (isNamedByAddress(error)) return { code: error.code, reason: message, todo: ANNOUNCE_NAMES };
  const isReply = (error as Partial<Error>).name === 'ReplyError';
  const network = error instanceof Error && !isReply ? networkCause(error, 'REDIS_URL', 'REDIS_CA') : null;
  return (
    network ?? { code: word || 'unknown', reason: message, todo: 'check the REDIS_ variables and the server' }
  );
}

/** The certificate holds names, but a cluster or a Sentinel has announced the server by its address. */
function isNamedByAddress(error: unknown): error is { code: string } {
  const { code, host = '' } = error as Partial<NodeJS.ErrnoException> & { host?: string };
  return code === 'ERR_TLS_CERT_ALTNAME_INVALID' && isIP(host) > 0;
}
