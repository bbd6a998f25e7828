#!/usr/bin/env node
import { parseArguments, USAGE, UsageError } from './cli/arguments.ts';
import { CommandError, type Command } from './cli/command.ts';
import { ConfigError } from './config.ts';
import { AuthError } from './domain/errors.ts';
import { KeyError } from './infra/crypto/keys.ts';
import { MigrationError, MigrationStopped } from './infra/postgres/migration-error.ts';

/** Each is loaded when it is called: together they take longer to load than most of them run. */
const COMMANDS: Partial<Record<string, () => Promise<{ run: Command }>>> = {
  client: () => import('./cli/client.ts'),
  doctor: () => import('./cli/doctor.ts'),
  keys: () => import('./cli/keys.ts'),
  migrate: () => import('./cli/migrate.ts'),
  purge: () => import('./cli/purge.ts'),
  recover: () => import('./cli/recover.ts'),
  user: () => import('./cli/user.ts'),
};

/** Those of several words. */
const GROUPS = ['client', 'keys', 'user'];

/** Aborted with the exit code by a signal, where the command ends by itself. */
const stopping = new AbortController();
let endsItself = false;

/** @returns the exit code. */
async function main(args: string[]): Promise<number> {
  try {
    const { values, positionals } = parseArguments(args);
    const [name = '', ...words] = positionals;
    if (values.help) return say({ usage: USAGE }, USAGE, values.json);
    const load = COMMANDS[name];
    if (!load) throw new UsageError(name === '' ? 'a command is needed' : 'there is no such command');
    if (words.length > 0 && !GROUPS.includes(name)) throw new UsageError('one command is needed');
    const { run } = await load();
    const { result, text, isWell = true } = await run({ env: process.env, words, values, stopped });
    say(result, text, values.json);
    return isWell ? 0 : 1;
  } catch (error) {
    return fail(error, args.includes('--json'));
  }
}

function say(result: object, text: string, json: boolean): number {
  process.stdout.write(`${json ? JSON.stringify(result) : text}\n`);
  return 0;
}

/** @returns the exit code. @throws what is no fault of the arguments, the surroundings or the moment. */
function fail(error: unknown, json: boolean): number {
  const { message, code = 1, facts = {} } = describe(error);
  process.stderr.write(`${json ? JSON.stringify({ ...facts, error: message }) : message}\n`);
  return code;
}

function describe(error: unknown): { message: string; code?: number; facts?: object } {
  if (error instanceof UsageError) return { message: `${error.message}\n\n${USAGE}`, code: 2 };
  if (error instanceof CommandError) return error;
  if (error instanceof AuthError) return { message: 'the database or Redis cannot be reached' };
  if (error instanceof MigrationStopped)
    return { message: error.message, code: stopping.signal.reason as number };
  if (error instanceof MigrationError || error instanceof ConfigError || error instanceof KeyError)
    return { message: error.message };
  throw error;
}

function stopped(): AbortSignal {
  endsItself = true;
  return stopping.signal;
}

// The kernel hands process 1, which a command is in a container, no signal that it does not handle itself.
process.on('SIGTERM', () => {
  stop(143);
});
process.once('SIGINT', () => {
  stop(130);
});

/** A command that may not be cut off anywhere ends by itself: what it waits for, it waits for no longer. */
function stop(code: number): void {
  if (!endsItself) process.exit(code);
  stopping.abort(code);
}

// Last, since everything above has to be there by then.
process.exitCode = await main(process.argv.slice(2));
