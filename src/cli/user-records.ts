import { AuthError } from '../domain/errors.ts';
import type { Account } from '../domain/users/account.ts';
import { collectFields } from '../domain/identifiers.ts';
import { parseRoles } from '../domain/roles.ts';
import { takenIn } from '../domain/users/taken.ts';
import { hashThatNothingOpens } from '../infra/crypto/scrypt-hasher.ts';
import { makeAccountStore } from '../infra/postgres/account-store.ts';
import { accountSettings, nameHashing, NO_NAMES, reservedHashes } from './account-settings.ts';
import { UsageError } from './arguments.ts';
import { CommandError, type Act, type Command } from './command.ts';
import { withPostgres } from './database.ts';

/** The most that one call lists: a terminal is not for more, and `user export` writes all. */
const MOST_LISTED = 1000;

/** `latchkey user show NAME`. @returns null if there is no such user. */
export const showUser: Act = async (postgres, key) => {
  const user = await makeAccountStore(postgres, NO_NAMES).find(key);
  if (!user) return null;
  const shown = fieldsOf(user);
  const lines = Object.entries(shown).map(([field, value]) => `${field.padEnd(16)}${String(value)}`);
  return { result: shown, text: lines.join('\n'), audited: { userId: user.id } };
};

/** `latchkey user list`. */
export const listUsers: Command = ({ env, values: { after, limit } }) => {
  if (!/^\d{1,15}$/.test(after)) throw new UsageError('--after is the id of a user, such as 7');
  if (!/^[1-9]\d{0,3}$/.test(limit) || Number(limit) > MOST_LISTED)
    throw new UsageError(`--limit is a number from 1 to ${MOST_LISTED}`);
  return withPostgres(env, async (postgres) => {
    // One more tells whether there is a next page.
    const page = await makeAccountStore(postgres, NO_NAMES).page(Number(after), Number(limit) + 1);
    const users = page.slice(0, Number(limit));
    const next = page.length > users.length ? (users.at(-1)?.id ?? null) : null;
    const lines = users.map(
      ({ id, username, name, disabled }) => `${id}\t${username}\t${name}${disabled ? '\tdisabled' : ''}`,
    );
    const rest = next === null ? [] : [`more: --after ${next}`];
    return {
      result: { users: users.map(fieldsOf), next },
      text: [...(lines.length > 0 ? ['id\tusername\tname', ...lines] : ['no accounts']), ...rest].join('\n'),
      audited: { shown: users.length },
    };
  });
};

/** `latchkey user create NAME`: an account that no password opens until it is reset. */
export const createUser: Command = async ({ env, words: [username = ''], values }) => {
  const { 'display-name': name, email } = values;
  if (name === undefined || email === undefined)
    throw new UsageError('user create needs --display-name TEXT and --email ADDRESS');
  const { newNames, cost } = accountSettings(env);
  const fields = {
    username: newNames.username(username),
    name: newNames.name(name),
    email: newNames.email(email),
  };
  const roles = parseRoles(values.roles?.split(',') ?? []);
  const { values: parsed, errors } = collectFields(fields);
  const problems = [
    ...errors.map(({ path, message }) => `${path.slice(1)} ${message}`),
    ...(roles.ok ? [] : [`roles ${roles.message}`]),
  ];
  if (!roles.ok || problems.length > 0) throw new CommandError(problems.join('; '));
  const hashing = nameHashing(env);
  const account = { ...parsed, roles: roles.value, passwordHash: hashThatNothingOpens(cost) };
  const { id: userId } = await withPostgres(env, async (postgres) =>
    makeAccountStore(postgres, await reservedHashes(postgres.prisma, hashing))
      .add(account, true)
      .catch(refuseTaken),
  );
  return {
    result: { user: userId },
    text: `created user ${userId}, who has no password yet`,
    audited: { userId },
  };
};

/** @throws CommandError if a name is taken, else the error. */
function refuseTaken(error: unknown): never {
  if (!(error instanceof AuthError) || takenIn(error).length === 0) throw error;
  const problems = error.errors?.map(({ path, message }) => `${path.slice(1)} ${message}`) ?? [];
  throw new CommandError(problems.join('; '), { taken: error.code });
}

function fieldsOf({ id, username, name, createdAt, disabled, emailVerified, roles }: Account) {
  return {
    id,
    username,
    name,
    created_at: new Date(createdAt).toISOString(),
    disabled,
    email_verified: emailVerified,
    roles,
  };
}
