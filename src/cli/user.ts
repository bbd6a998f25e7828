import { type AccountKey, parseLoginName } from '../domain/identifiers.ts';
import { UsageError } from './arguments.ts';
import { CommandError, type Act, type Command } from './command.ts';
import { convertUsers } from './convert/convert.ts';
import { withPostgres } from './database.ts';
import { deleteUser, disable, enable, setRoles, resetUser } from './user-changes.ts';
import { createUser, listUsers, showUser } from './user-records.ts';
import { exportUsers } from './user-export.ts';
import { factors } from './user-factors.ts';
import { importUsers } from './user-import.ts';
import { showTokens } from './user-tokens.ts';

/** Subcommands that name no user, with how many words may follow them. */
const GENERAL: Partial<Record<string, { words: [number, number]; run: Command }>> = {
  convert: { words: [1, 2], run: convertUsers },
  create: { words: [1, 1], run: createUser },
  export: { words: [0, 1], run: exportUsers },
  import: { words: [1, 1], run: importUsers },
  list: { words: [0, 0], run: listUsers },
};

/** `latchkey user …`: an action on a user, by name or `--id N`, or one of GENERAL. */
export const run: Command = async (invocation) => {
  const { env, note, values } = invocation;
  const [action = '', ...names] = invocation.words;
  const general = GENERAL[action];
  if (general) {
    const [least, most] = general.words;
    if (names.length < least || names.length > most)
      throw new UsageError(`user ${action} takes other arguments`);
    return general.run({ ...invocation, words: names });
  }
  const act = ACTIONS[action];
  const { id } = values;
  const [name, ...rest] = names;
  if (act && name === undefined && id === undefined)
    throw new UsageError(`user ${action} needs a username, an e-mail address or --id N`);
  if (!act || rest.length > 0 || (name === undefined) === (id === undefined))
    throw new UsageError(
      `use user ${namesOf(ACTIONS)} with a username, an e-mail address or --id N, or user ${namesOf(GENERAL)}`,
    );
  const key = keyOf(name, id);
  const outcome = key && (await withPostgres(env, (postgres) => act(postgres, key, { env, note, values })));
  if (!outcome) throw new CommandError('there is no such user');
  return outcome;
};

/** Never guesses an id: a username may consist of digits. @returns null if no account can have this name. */
function keyOf(name: string | undefined, id: string | undefined): AccountKey | null {
  if (id === undefined) return parseLoginName(name ?? '');
  if (!/^[1-9]\d{0,14}$/.test(id)) throw new UsageError('--id is the number of a user, such as 7');
  return { id: Number(id) };
}

const ACTIONS: Partial<Record<string, Act>> = {
  tokens: showTokens,
  reset: resetUser,
  show: showUser,
  enable,
  disable,
  factors,
  roles: setRoles,
  delete: deleteUser,
};

function namesOf(actions: object): string {
  return Object.keys(actions)
    .sort()
    .join(', ')
    .replace(/, (?!.*,)/, ' or ');
}
