import { setTimeout as sleep } from 'node:timers/promises';
import type { PrismaClient } from '../generated/prisma/client.ts';
import { parseLoginName } from '../domain/users/identifiers.ts';
import { disableUser, enableUser, pendingOf, type UserKey } from '../infra/postgres/user-status.ts';
import { UsageError } from './arguments.ts';
import { CommandError, withPostgres, type Command, type Invocation, type Outcome } from './command.ts';
import { giveSkeletons } from './user-skeletons.ts';
import { showTokens } from './user-tokens.ts';

/** Milliseconds. Each running replica sets pending tombstones every second, so this is ample. */
const TOMBSTONE_TIMEOUT = 10_000;

/** `latchkey user disable|enable|tokens NAME`, or `--id N` instead of NAME; `latchkey user skeletons`. */
export const run: Command = async ({ env, words: [action, ...names], values: { id }, note }) => {
  if (action === 'skeletons' && names.length === 0 && id === undefined)
    return withPostgres(env, ({ prisma }) => giveSkeletons(prisma));
  const act = ACTIONS[action ?? ''];
  const [name, ...rest] = names;
  if (!act || rest.length > 0 || (name === undefined) === (id === undefined))
    throw new UsageError(
      'use user disable, enable or tokens with a username, an e-mail address or --id N, or user skeletons',
    );
  const key = keyOf(name, id);
  const outcome = key && (await withPostgres(env, ({ prisma }) => act(prisma, key, { env, note })));
  if (!outcome) throw new CommandError('there is no such user');
  return outcome;
};

/** Never guesses an id: a username may consist of digits. @returns null if no account can have this name. */
function keyOf(name: string | undefined, id: string | undefined): UserKey | null {
  if (id === undefined) return parseLoginName(name ?? '');
  if (!/^[1-9]\d{0,14}$/.test(id)) throw new UsageError('--id is the number of a user, such as 7');
  return { id: Number(id) };
}

type Act = (
  prisma: PrismaClient,
  user: UserKey,
  invocation: Pick<Invocation, 'env' | 'note'>,
) => Promise<Outcome | null>;

/** Each action returns null if there is no such user. */
const ACTIONS: Partial<Record<string, Act>> = {
  tokens: (prisma, user, { env }) => showTokens(prisma, user, env),
  enable,
  disable,
};

async function enable(prisma: PrismaClient, user: UserKey): Promise<Outcome | null> {
  const enabled = await enableUser(prisma, user);
  if (!enabled) return null;
  const { userId, ended } = enabled;
  return { result: { user: userId, ended, done: true }, text: 'enabled', audited: { userId } };
}

/**
 * Disables the account in the record at once. Its tokens are refused as soon as a replica has set their tombstones, so
 * this waits for that.
 */
async function disable(
  prisma: PrismaClient,
  user: UserKey,
  { note }: Pick<Invocation, 'note'>,
): Promise<Outcome | null> {
  const disabled = await disableUser(prisma, user);
  if (!disabled) return null;
  const { userId, ended } = disabled;
  note({ userId, ended });
  const deadline = performance.now() + TOMBSTONE_TIMEOUT;
  let pending = await pendingOf(prisma, userId);
  while (pending > 0 && performance.now() < deadline) {
    await sleep(100);
    pending = await pendingOf(prisma, userId);
  }
  const done = pending === 0;
  const doubt = done ? '' : '; no running replica has confirmed that they are refused';
  return {
    result: { user: userId, ended, done },
    text: `disabled, ${ended} tokens ended${doubt}`,
    isWell: done,
    audited: { done },
  };
}
