import { networkCause, type Cause } from '../../../telemetry/store-cause.ts';

/** What to do, by the first word of Redis's error; the first match counts. */
const REMEDIES: readonly [RegExp, string][] = [
  [/^(WRONGPASS|NOAUTH|ERR AUTH)/, 'check user and password in REDIS_URL'],
  [/^NOPERM/, 'allow the user of REDIS_URL what it needs (docs/operating.md, "Redis")'],
  [/^(READONLY|MASTERDOWN|NOREPLICAS)/, 'check the replication: no master takes writes here'],
  [/^(OOM|MISCONF)/, 'look at the memory and the disk of the server'],
  [/^(MOVED|CROSSSLOT)/, 'the server is a node of a cluster: set REDIS_MODE=cluster and REDIS_NODES'],
  [/^(LOADING|CLUSTERDOWN)/, 'wait: the server starts, or its cluster is not complete'],
];

/** Why Redis fails, from an error of ioredis. */
export function causeOf(error: unknown): Cause {
  // An error of a whole cluster holds that of a node.
  const { lastNodeError, message = '' } = error as Partial<Error> & { lastNodeError?: unknown };
  if (lastNodeError !== undefined) return causeOf(lastNodeError);
  const [, todo] = REMEDIES.find(([pattern]) => pattern.test(message)) ?? [];
  const [word = ''] = /^[A-Z]+\b/.exec(message) ?? [];
  if (todo !== undefined) return { code: word, reason: message, todo };
  const isReply = (error as Partial<Error>).name === 'ReplyError';
  const network = error instanceof Error && !isReply ? networkCause(error, 'REDIS_URL', 'REDIS_CA') : null;
  return (
    network ?? { code: word || 'unknown', reason: message, todo: 'check the REDIS_ variables and the server' }
  );
}
