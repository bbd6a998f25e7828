import { migrate, resolveMigration } from '../infra/postgres/migrate.ts';
import { UsageError } from './arguments.ts';
import { databaseOf, type Command } from './command.ts';

/** `latchkey migrate`. */
export const run: Command = async ({ env, values, stopped }) => {
  const { 'resolve-rolled-back': rolledBack, 'resolve-applied': done, wait, json } = values;
  if (!/^\d{1,5}$/.test(wait)) throw new UsageError('--wait is a number of seconds');
  const { url } = databaseOf(env);
  if (rolledBack !== undefined) {
    await resolveMigration(url, rolledBack, 'rolled-back');
    return { result: { resolved: rolledBack }, text: `${rolledBack} will be run again by the next migrate` };
  }
  if (done !== undefined) {
    await resolveMigration(url, done, 'applied');
    return { result: { resolved: done }, text: `${done} counts as applied` };
  }
  const { applied } = await migrate(url, {
    patience: Number(wait) * 1000,
    onWait: (reason) => {
      const text = `waiting: ${reason}`;
      process.stderr.write(`${json ? JSON.stringify({ error: text }) : text}\n`);
    },
    signal: stopped(),
  });
  const lines = applied.map((name) => `applied ${name}`);
  return { result: { applied }, text: lines.join('\n') || 'nothing to apply' };
};
