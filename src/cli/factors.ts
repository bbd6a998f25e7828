import { rekeyFactors } from '../infra/postgres/factor-keys.ts';
import { UsageError } from './arguments.ts';
import { CommandError, type Command } from './command.ts';
import { withPostgres } from './database.ts';
import { NEEDS_FACTOR_KEYS, openSecrets } from './account-settings.ts';

/** `latchkey factors rekey`. */
export const run: Command = async ({ env, words: [action, ...rest], note }) => {
  if (action !== 'rekey' || rest.length > 0) throw new UsageError('use factors rekey');
  const secrets = openSecrets(env);
  if (!secrets.canSeal) throw new CommandError(NEEDS_FACTOR_KEYS);
  const { moved, left } = await withPostgres(env, ({ prisma }) =>
    rekeyFactors(prisma, secrets, (moved) => {
      note({ moved });
    }),
  );
  const more =
    left === 0 ? '' : `; ${left} are left, because FACTOR_KEYS lacks their key, or they are damaged`;
  return {
    result: { moved, left },
    text: `${moved} secrets encrypted under the first key${more}`,
    isWell: left === 0,
    audited: { moved, left },
  };
};
