import { Cluster } from 'ioredis';
import { AuthError } from '../../domain/errors.ts';
import type { RotationOutcome, RotationRow, SessionState } from '../../domain/tokens/session-state.ts';
import type { Accepted, Known, Superseded, Unusable } from '../../domain/tokens/token-state-store.ts';
import type { Observe } from '../../telemetry/observe.ts';
import type { StoreOperation } from '../../telemetry/outcomes.ts';
import type { StoreError } from '../../telemetry/store-cause.ts';
import { makeBatch } from '../tick.ts';
import { causeOf, failureOf, orUnavailable, unavailable } from './connection/errors.ts';
import type { ConnectionEpoch, ReplayGate } from './connection/replay-gate.ts';
import type {
  Argument,
  FeedReply,
  ScriptedCluster,
  ScriptedRedis,
  ScriptName,
  Scripts,
} from './connection/scripts.ts';

/** The most tokens of one call of revoke.lua: Redis does nothing else meanwhile. */
const MAX_REVOKED = 64;
/** The most users of one call of put-user.lua. */
const MAX_USERS = 32;

type MeasuredScript = keyof typeof OPERATIONS;
type Answer<Name extends MeasuredScript> = Awaited<ReturnType<Scripts[Name]>>;
type Arguments = readonly Argument[];

export interface ScriptClientOptions {
  /** Closed after a reconnect, until the revocations that Redis may have lost have been replayed. */
  gate: Pick<ReplayGate, 'connectionEpoch' | 'isAdmitted'>;
  observe: Pick<Observe, 'redisAnswered' | 'redisFailed'>;
}

/** A token with the names of its key and of its user's. */
export interface KeyedToken {
  userId: number;
  keys: readonly [token: string, user: string];
}

/** A user with the name of the key, as put-user.lua takes it. */
export interface KeyedUser {
  key: string;
  text: string;
}

/** The scripts that requests run, with their names in the metrics. */
const OPERATIONS: Record<Exclude<ScriptName, 'setMark' | 'lease'>, StoreOperation> = {
  rotate: 'rotate',
  check: 'check',
  preparePut: 'prepare_put',
  put: 'put',
  putUser: 'put_user',
  revoke: 'revoke',
  lastUses: 'last_uses',
  clock: 'now',
  feed: 'feed',
  reserve: 'reserve',
  release: 'release',
};

/**
 * Our scripts, a method each. What they take and answer stands in the heads of `lua/`. Each method is one round trip,
 * counts in the metrics, and throws AuthError `unavailable` if there is no reliable answer: while the replay gate is
 * closed, or if other masters are connected when the reply comes than when the script was sent. The methods that say so
 * run even then, but only on the Redis of this installation (infra/installation/).
 */
export interface ScriptClient {
  /**
   * The connections that answer now.
   * @param expected throws also if the connections are no longer these.
   * @throws AuthError `unavailable` while the gate is closed.
   */
  connectionEpoch: (expected?: ConnectionEpoch) => ConnectionEpoch;
  /** Redis's clock, in microseconds. */
  now: () => Promise<number>;

  /** @param text what `handleToken` of rotate.lua takes. */
  rotate: (
    token: KeyedToken,
    text: string,
  ) => Promise<Unusable | (RotationOutcome & Known & { now: number })>;
  checkAccess: (token: KeyedToken, generation: number) => Promise<Unusable | Accepted | Superseded>;
  checkLongLived: (token: KeyedToken) => Promise<Unusable | Accepted>;
  preparePut: (userKey: string) => Promise<number>;
  /** @returns whether the state was put. */
  put: (args: Arguments) => Promise<boolean>;
  /** @param ttl seconds to keep the user. */
  putUser: (user: KeyedUser, ttl: number) => Promise<void>;
  /** @param rest ARGV of revoke.lua. Calls Redis once for many tokens, in a cluster once for each. */
  revoke: (tokenKeys: readonly string[], rest: Arguments) => Promise<void>;
  /** @returns for each token its last use in milliseconds since 1970; 0 if the store does not know it. */
  lastUses: (tokenKeys: readonly string[]) => Promise<number[]>;
  clock: (key: string) => Promise<[string, string]>;
  feed: (args: Arguments) => Promise<FeedReply>;

  /** Even if the gate is closed. */
  feedUngated: (args: Arguments) => Promise<FeedReply>;
  /** Even if the gate is closed. @returns null if the slot was taken; else in how many milliseconds one is free. */
  reserve: (args: Arguments) => Promise<{ earlier: number } | { freeIn: number }>;
  /** Even if the gate is closed. */
  release: (args: Arguments) => Promise<void>;
  /** As `revoke`, even if the gate is closed. Measures no latency, and counts one failure at most. */
  revokeUngated: ScriptClient['revoke'];
  /**
   * Even if the gate is closed. Calls Redis once for many users, in a cluster once for each. Measures no latency, and
   * counts one failure at most.
   */
  putUsersUngated: (users: readonly KeyedUser[], ttl: number) => Promise<void>;
}

export function makeScriptClient(
  redis: ScriptedRedis | ScriptedCluster,
  { gate, observe }: ScriptClientOptions,
): ScriptClient {
  function connectionEpoch(expected?: ConnectionEpoch): ConnectionEpoch {
    const current = gate.connectionEpoch();
    if (current && (expected === undefined || current === expected)) return current;
    observe.redisFailed('not_ready');
    throw new AuthError('unavailable');
  }

  /** @throws AuthError `unavailable` if Redis is not known to be this installation's. */
  function requireAdmission(): void {
    if (gate.isAdmitted()) return;
    observe.redisFailed('not_ready');
    throw new AuthError('unavailable');
  }

  function failed(cause: unknown): void {
    observe.redisFailed(failureOf(cause));
  }

  async function measured<Result>(operation: StoreOperation, command: Promise<Result>): Promise<Result> {
    const start = performance.now();
    try {
      const answer = await command;
      observe.redisAnswered(operation, (performance.now() - start) / 1000);
      return answer;
    } catch (cause) {
      failed(cause);
      throw unavailable(cause);
    }
  }

  async function gated<Result>(operation: StoreOperation, send: () => Promise<Result>): Promise<Result> {
    const before = connectionEpoch();
    const answer = await measured(operation, send());
    connectionEpoch(before);
    return answer;
  }

  function run<Name extends MeasuredScript>(script: Name, args: Arguments): Promise<Answer<Name>> {
    return redis[script](...args) as Promise<Answer<Name>>;
  }

  const ask = <Name extends MeasuredScript>(script: Name, args: Arguments) =>
    gated(OPERATIONS[script], () => run(script, args));
  const askUngated = <Name extends MeasuredScript>(script: Name, args: Arguments) => {
    requireAdmission();
    return measured(OPERATIONS[script], run(script, args));
  };

  /** The error of one token whose reply stands beside those of others. */
  function replyError(message: string): AuthError {
    const cause = Object.assign(new Error(message), { name: 'ReplyError' });
    failed(cause);
    return unavailable(cause);
  }

  /** Whether one call may use the keys of several users: in a cluster they stand in different slots. */
  let sharesCalls = !(redis instanceof Cluster);

  /** @param send one call for all of these, with a result for each. */
  async function inOneCall<Item, Result>(
    items: readonly Item[],
    send: (items: readonly Item[]) => Promise<readonly Result[]>,
  ): Promise<readonly Result[]> {
    if (sharesCalls || items.length === 1) {
      try {
        return await send(items);
      } catch (error) {
        // REDIS_URL names a node of a cluster, which serves all slots. Redis has run nothing.
        if (codeOf(error) !== 'CROSSSLOT' || items.length === 1) throw error;
        sharesCalls = false;
      }
    }
    return (await Promise.all(items.map((item) => send([item])))).flat();
  }

  /** @param most of one call: Redis does nothing else meanwhile (ADR 5). */
  const batch = <Item, Result>(most: number, send: (items: readonly Item[]) => Promise<readonly Result[]>) =>
    makeBatch<Item, Result>({
      limit: () => (sharesCalls ? most : 1),
      run: (items) => inOneCall(items, send),
    });

  const tokenScript = (script: 'rotate' | 'check', most: number) =>
    batch<TokenCall, string>(most, (calls) => {
      const keys = calls.flatMap((call) => call.keys);
      return ask(script, [keys.length, ...keys, ...calls.map(({ text }) => text)]);
    });

  /** One string is far cheaper to receive than a list. */
  function fieldsOf(reply: string): string[] {
    const fields = reply.split('\0');
    if (fields[0] === 'failed') throw replyError(fields[1] ?? '');
    return fields;
  }

  const rotate = tokenScript('rotate', 16);
  const check = tokenScript('check', 32);
  const lastUses = batch<readonly string[], number[]>(16, async (lists) => {
    const names = lists.flat();
    const uses = (await ask('lastUses', [names.length, ...names])).map(decodeLastUse);
    let next = 0;
    return lists.map(({ length }) => uses.slice(next, (next += length)));
  });

  /** Calls Redis for many items at once, in a cluster for each. @param most of one call. */
  async function inCalls<Item>(
    items: readonly Item[],
    most: number,
    send: (items: readonly Item[]) => Promise<unknown>,
  ): Promise<void> {
    const calls = chunksOf(items, most).map((some) =>
      inOneCall(some, async (sent) => {
        await send(sent);
        return [];
      }),
    );
    await Promise.all(calls);
  }

  const revokeBy = (
    send: (args: Arguments) => Promise<unknown>,
    tokenKeys: readonly string[],
    rest: Arguments,
  ) => inCalls(tokenKeys, MAX_REVOKED, (names) => send([names.length, ...names, ...rest]));

  const usersFor = (users: readonly KeyedUser[], ttl: number): Arguments => [
    users.length,
    ...users.map(({ key }) => key),
    ttl,
    ...users.map(({ text }) => text),
  ];

  return {
    connectionEpoch,
    async now() {
      const [seconds, micros] = await gated('now', () => redis.time());
      return Number(seconds) * 1_000_000 + Number(micros);
    },
    rotate: async ({ keys, userId }, text) => decodeRotation(userId, fieldsOf(await rotate({ keys, text }))),
    checkAccess: async ({ keys, userId }, generation) =>
      decodeAccess(userId, fieldsOf(await check({ keys, text: String(generation) }))),
    checkLongLived: async ({ keys, userId }) =>
      decodeLongLived(userId, fieldsOf(await check({ keys, text: '' }))),
    preparePut: async (userKey) => Number(await ask('preparePut', [userKey])),
    put: async (args) => (await ask('put', args)) === 1,
    putUser: async (user, ttl) => void (await ask('putUser', usersFor([user], ttl))),
    revoke: (...args) => revokeBy((sent) => ask('revoke', sent), ...args),
    lastUses,
    clock: (key) => ask('clock', [key]),
    feed: (args) => ask('feed', args),
    feedUngated: async (args) => askUngated('feed', args),
    async reserve(args) {
      const reply = await askUngated('reserve', args);
      return reply[0] === 1 ? { earlier: reply[1] } : { freeIn: reply[1] };
    },
    release: async (args) => void (await askUngated('release', args)),
    async revokeUngated(...args) {
      requireAdmission();
      await orUnavailable(
        revokeBy((sent) => run('revoke', sent), ...args),
        failed,
      );
    },
    async putUsersUngated(users, ttl) {
      requireAdmission();
      await orUnavailable(
        inCalls(users, MAX_USERS, (some) => run('putUser', usersFor(some, ttl))),
        failed,
      );
    },
  };
}

/** One token of a call. */
interface TokenCall {
  keys: KeyedToken['keys'];
  /** What the script's `handleToken` takes: one text, because each argument costs the client as much as a field. */
  text: string;
}

function chunksOf<Item>(items: readonly Item[], size: number): (readonly Item[])[] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, i) =>
    items.slice(i * size, (i + 1) * size),
  );
}

function codeOf(error: unknown): string | undefined {
  return error instanceof AuthError ? (error.cause as StoreError | undefined)?.code : causeOf(error).code;
}

/** A reply of a script: the outcome, then fields by position as its header lists them. */
type Reply = string[];

/** Decodes rotate.lua. */
function decodeRotation(
  userId: number,
  reply: Reply,
): Unusable | (RotationOutcome & Known & { now: number }) {
  const unusable = decodeUnusable(reply);
  if (unusable) return unusable;
  const [outcome, now, detail, latest, parent, first, confirmed, caller, createdAt, ...user] = reply;
  const state = decodeState(latest, parent, first, confirmed === '1', caller);
  const known = { ...decodeKnown(userId, createdAt, user), now: Number(now) };
  switch (outcome) {
    case 'issued':
      return { outcome, row: detail as RotationRow, state, ...known };
    case 'repeated':
      return { outcome, state, ...known };
    case 'held':
      return { outcome, retryAfter: Number(detail), ...known };
    case 'refused':
      return { outcome, reason: detail === 'clock' ? 'clock' : 'stale', ...known };
    case 'reused':
      return { outcome, ...known };
    default:
      throw unknownReply('rotate.lua', reply);
  }
}

/** Decodes check.lua for an access token. */
function decodeAccess(userId: number, reply: Reply): Unusable | Accepted | Superseded {
  const unusable = decodeUnusable(reply);
  if (unusable) return unusable;
  const [outcome, createdAt, username, name, userCreatedAt, roles, disabled, latest, parent, first, caller] =
    reply;
  const known = decodeKnown(userId, createdAt, [username, name, userCreatedAt, roles, disabled]);
  if (outcome === 'superseded') return { outcome, ...known };
  if (outcome !== 'good') throw unknownReply('check.lua', reply);
  if (latest === undefined) return { outcome, ...known };
  return { outcome, ...known, confirmed: decodeState(latest, parent, first, true, caller) };
}

/** Decodes check.lua for a long-lived token. */
function decodeLongLived(userId: number, reply: Reply): Unusable | Accepted {
  const unusable = decodeUnusable(reply);
  if (unusable) return unusable;
  const [outcome, createdAt, username, name, userCreatedAt, roles, disabled, usedAt] = reply;
  if (outcome !== 'good') throw unknownReply('check.lua', reply);
  const known = decodeKnown(userId, createdAt, [username, name, userCreatedAt, roles, disabled]);
  return usedAt === undefined ? { outcome, ...known } : { outcome, ...known, usedAt: Number(usedAt) };
}

/** Decodes one entry of last-uses.lua. @returns milliseconds since 1970; 0 if the store does not know the token. */
function decodeLastUse([latest, usedAt]: readonly [string | null, string | null]): number {
  return Math.max(Math.floor(Number(latest ?? 0) / 1000), Number(usedAt ?? 0));
}

/** Decodes the replies that rotate.lua and check.lua have in common. */
function decodeUnusable(reply: Reply): Unusable | null {
  const [outcome, now] = reply;
  if (outcome === 'missing') return { outcome, now: Number(now) };
  if (outcome === 'revoked' || outcome === 'disabled') return { outcome };
  // The call that finds the theft replies with more fields.
  if (outcome === 'reused' && reply.length === 1) return { outcome };
  return null;
}

type Field = string | undefined;

function decodeKnown(
  userId: number,
  createdAt: Field,
  [username = '', name = '', userCreatedAt, roles = '', disabled]: Field[],
): Known {
  return {
    createdAt: Number(createdAt),
    user: {
      id: userId,
      username,
      name,
      createdAt: Number(userCreatedAt),
      disabled: false,
      // email-verified.lua
      emailVerified: disabled === '3',
      roles: roles === '' ? [] : roles.split(','),
    },
  };
}

/** Decodes the fields of a state as they are stored. */
export function decodeState(
  latest: Field,
  parent: Field,
  first: Field,
  confirmed: boolean,
  caller: Field = '',
): SessionState {
  return { latest: Number(latest), parent: Number(parent), first: Number(first), confirmed, caller };
}

/** An unknown reply is an error, never a good token. */
function unknownReply(script: string, [outcome]: Reply): Error {
  return new Error(`${script} answered ${outcome ?? 'nothing'}`);
}
