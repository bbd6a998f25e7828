import { migrate, resolveMigration } from '../infra/postgres/migrate.ts';
import { UsageError } from './arguments.ts';
import type { Command, Outcome } from './command.ts';
import { withDatabase, type CommandDatabase } from './database.ts';

/** `latchkey migrate`. */
export const run: Command = (invocation) =>
  withDatabase(invocation.env, (database) => migrateDatabase(database, invocation));

async function migrateDatabase(
  { url, ca }: CommandDatabase,
  { values, stopped }: Parameters<Command>[0],
): Promise<Outcome> {
  const { 'resolve-rolled-back': rolledBack, 'resolve-applied': done, wait, json } = values;
  if (!/^\d{1,5}$/.test(wait)) throw new UsageError('--wait is a number of seconds');
  if (rolledBack !== undefined) {
    await resolveMigration(url, rolledBack, 'rolled-back', { ca });
    return {
      result: { resolved: rolledBack },
      text: `the next \`latchkey migrate\` runs ${rolledBack} again`,
      audited: { resolved: rolledBack },
    };
  }
  if (done !== undefined) {
    await resolveMigration(url, done, 'applied', { ca });
    return {
      result: { resolved: done },
      text: `${done} is recorded as applied`,
      audited: { resolved: done },
    };
  }
  const { applied, changed, keyed } = await migrate(url, {
    ca,
    timeout: Number(wait) * 1000,
    onWait: (reason) => {
      const text = `waiting: ${reason}`;
      process.stderr.write(`${json ? JSON.stringify({ error: text }) : text}\n`);
    },
    signal: stopped(),
  });
  const lines = [
    ...applied.map((name) => `applied ${name}`),
    ...(applied.length === 0 ? ['nothing to apply'] : []),
    ...(keyed === 0 ? [] : [`computed the form in which ${keyed} e-mail addresses are compared`]),
    ...changed.map(
      (name) => `warning: the file of ${name} has changed since it was applied to this database`,
    ),
  ];
  return {
    result: { applied, changed, keyed },
    text: lines.join('\n'),
    audited: { applied: applied.length },
  };
}
