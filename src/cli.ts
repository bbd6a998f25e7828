#!/usr/bin/env node
import type { CommandTrail } from './cli/audit.ts';
import { parseArguments, shortUsage, UsageError, usageOf } from './cli/arguments.ts';
import { CommandError, type Command, type Facts } from './cli/command.ts';
import { ConfigError } from './config/config-error.ts';
import { ownEnvironment } from './config/environment.ts';
import { AuthError } from './domain/errors.ts';
import { KeyError } from './infra/crypto/keys.ts';
import { EmbeddedDatabaseError } from './infra/embedded/embedded-database-error.ts';
import { failureOfState } from './infra/postgres/failures.ts';
import { MigrationError, MigrationStopped } from './infra/postgres/migration-error.ts';
import { SETTINGS_STATE } from './infra/postgres/settings-error.ts';
import { readBuild } from './runtime/build.ts';

/** Each command is loaded when it is called: loading all takes longer than most of them run. */
const COMMANDS: Partial<Record<string, () => Promise<{ run: Command }>>> = {
  client: () => import('./cli/client.ts'),
  doctor: () => import('./cli/doctor.ts'),
  drill: () => import('./cli/drill.ts'),
  explain: () => import('./cli/explain.ts'),
  factors: () => import('./cli/factors.ts'),
  keys: () => import('./cli/keys.ts'),
  migrate: () => import('./cli/migrate.ts'),
  plan: () => import('./cli/plan.ts'),
  purge: () => import('./cli/purge.ts'),
  readers: () => import('./cli/readers.ts'),
  recover: () => import('./cli/recover.ts'),
  settings: () => import('./cli/settings.ts'),
  user: () => import('./cli/user.ts'),
};

/** Commands of several words. */
const GROUPS = ['client', 'factors', 'keys', 'readers', 'settings', 'user'];

/** For commands that end cleanly on a signal. The reason of the abort is the exit code. */
const stopping = new AbortController();
let endsItself = false;
let trail: CommandTrail | undefined;

/** @returns the exit code. */
async function main(args: string[]): Promise<number> {
  try {
    const { values, positionals } = parseArguments(args);
    const [name = '', ...words] = positionals;
    if (values.help) return say({ usage: usageOf(name) }, usageOf(name), values.json);
    if (values.version) {
      const build = readBuild();
      return say(build, `latchkey ${build.version} (${build.revision})`, values.json);
    }
    const load = COMMANDS[name];
    if (!load) throw new UsageError(name === '' ? 'give a command' : 'unknown command');
    if (words.length > 0 && !GROUPS.includes(name)) throw new UsageError(`${name} takes no further words`);
    const { run } = await load();
    const { openCommandTrail } = await import('./cli/audit.ts');
    const env = ownEnvironment();
    trail = openCommandTrail(positionals, values, env);
    const note = (facts: Facts) => trail?.note(facts);
    const outcome = await run({ env, words, values, note, stopped });
    const isRecorded = trail.done(outcome);
    const { result, text, hasOutput = false, isWell = true } = outcome;
    if (hasOutput) process.stderr.write(`${values.json ? JSON.stringify(result) : text}\n`);
    else say(result, text, values.json);
    return isWell && isRecorded ? 0 : 1;
  } catch (error) {
    trail?.failed(error);
    return fail(error, args);
  }
}

function say(result: object, text: string, json: boolean): number {
  process.stdout.write(`${json ? JSON.stringify(result) : text}\n`);
  return 0;
}

/** @returns the exit code. @throws any error that arguments, settings or an outage do not explain: a bug. */
function fail(error: unknown, args: readonly string[]): number {
  const usual = stopping.signal.aborted ? (stopping.signal.reason as number) : 1;
  const { message, code = usual, facts = {} } = describe(error);
  const json = args.includes('--json');
  // The error is last: a terminal shows the end.
  if (error instanceof UsageError && !json) process.stderr.write(`${shortUsage(args)}\n\n`);
  process.stderr.write(`${json ? JSON.stringify({ ...facts, error: message }) : message}\n`);
  return code;
}

/** Errors whose messages say what is wrong and what to do. */
const REASONS = [MigrationError, ConfigError, KeyError, EmbeddedDatabaseError];

function describe(error: unknown): { message: string; code?: number; facts?: object } {
  if (error instanceof UsageError) return { message: error.message, code: 2 };
  if (error instanceof CommandError) return error;
  if (error instanceof AuthError) return { message: outageOf(error) };
  if (error instanceof MigrationStopped)
    return { message: error.message, code: stopping.signal.reason as number };
  if (REASONS.some((kind) => error instanceof kind)) return { message: (error as Error).message };
  throw error;
}

/** The message holds the driver's, which names no secret. */
function outageOf({ cause }: Pick<Error, 'cause'>): string {
  const { name, code, message } = (cause ?? {}) as Partial<NodeJS.ErrnoException>;
  if (message !== undefined && code === SETTINGS_STATE) return message;
  const said = message ? `: ${[name, code].filter(Boolean).join(' ')}: ${message}` : '';
  const failure = failureOfState(code ?? '');
  // It answers.
  if (failure?.todo !== undefined && !failure.isAway)
    return `the database cannot be used${said}; ${failure.todo}`;
  return `the database or Redis cannot be reached${said}`;
}

function stopped(): AbortSignal {
  endsItself = true;
  return stopping.signal;
}

// In a container the command is process 1, which gets only the signals that it handles.
process.on('SIGTERM', () => {
  stop(143);
});
process.once('SIGINT', () => {
  stop(130);
});

/** Ends the process, or aborts the wait of a command that must not be interrupted at any point. */
function stop(code: number): void {
  if (!endsItself) {
    trail?.stopped();
    process.exit(code);
  }
  stopping.abort(code);
}

// Last, because it uses everything above.
process.exitCode = await main(process.argv.slice(2));
