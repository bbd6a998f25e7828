import { setTimeout as sleep } from 'node:timers/promises';
import type { PrismaClient } from '../generated/prisma/client.ts';
import { parseUsername } from '../domain/users/identifiers.ts';
import { makePostgres } from '../infra/postgres/client.ts';
import { disableUser, enableUser, pendingOf } from '../infra/postgres/user-status.ts';
import { UsageError } from './arguments.ts';
import { CommandError, databaseOf, type Command, type Outcome } from './command.ts';
import { showTokens } from './user-tokens.ts';

/** Every replica sets the tombstones each second; with one running this is plenty. In milliseconds. */
const PATIENCE = 10_000;

/** `latchkey user disable|enable|tokens NAME`. */
export const run: Command = async ({ env, words: [action, name, ...rest] }) => {
  const act = ACTIONS[action ?? ''];
  if (!act || name === undefined || rest.length > 0)
    throw new UsageError('user needs disable, enable or tokens, and a username');
  const postgres = makePostgres({ ...databaseOf(env), pool: 1 });
  try {
    const username = parseUsername(name);
    const outcome = username.ok ? await act(postgres.prisma, username.value, env) : null;
    if (!outcome) throw new CommandError('there is no such user');
    return outcome;
  } finally {
    await postgres.close();
  }
};

/** Each has no outcome when there is no such user. */
const ACTIONS: Partial<Record<string, typeof showTokens>> = {
  tokens: showTokens,
  enable,
  disable,
};

async function enable(prisma: PrismaClient, username: string): Promise<Outcome | null> {
  const enabled = await enableUser(prisma, username);
  return enabled && { result: { user: enabled.userId, ended: enabled.ended, done: true }, text: 'enabled' };
}

/**
 * The record says so at once; what tokens were ended is refused as soon as a replica has set their tombstones, which is
 * waited for.
 */
async function disable(prisma: PrismaClient, username: string): Promise<Outcome | null> {
  const disabled = await disableUser(prisma, username);
  if (!disabled) return null;
  const { userId, ended } = disabled;
  const deadline = performance.now() + PATIENCE;
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
  };
}
