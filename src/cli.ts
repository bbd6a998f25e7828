#!/usr/bin/env node
import { parseArgs } from 'node:util';
import { describe, doctor } from './cli-doctor.ts';
import { recover } from './cli-recover.ts';
import { changeUser } from './cli-user.ts';
import { ConfigError, loadConfig, type Environment } from './config.ts';
import { AuthError } from './domain/errors.ts';
import { makePostgres } from './infra/postgres/client.ts';
import { migrate, MigrationError, resolveMigration } from './infra/postgres/migrate.ts';
import { purge } from './infra/postgres/purge.ts';

/** Exit codes: 0 done, 1 failed, 2 not understood. */
const USAGE = `Usage: latchkey COMMAND [--json]

  migrate                             apply what is missing to DATABASE_URL
  migrate --resolve-rolled-back NAME  a migration that failed half-way was undone by hand: run it again
  migrate --resolve-applied NAME      a migration that failed half-way was finished by hand
  doctor                              check configuration, stores, clocks and keys, and say what to do
  purge                               delete the records of sessions long expired and of tokens long revoked
  recover                             the database was restored from a backup: end what is newer, before the service starts
  recover --end-all                   end every session and long-lived token as well
  user disable NAME                   refuse the user's logins, and end all their tokens
  user enable NAME                    let the user log in again`;

class UsageError extends Error {}

const COMMANDS: Partial<Record<string, (values: Values, words: string[]) => Promise<number>>> = {
  doctor: runDoctor,
  migrate: runMigrate,
  purge: runPurge,
  recover: runRecover,
  user: runUser,
};

async function main(args: string[]): Promise<number> {
  try {
    const { values, positionals } = parse(args);
    if (values.help) return say({ usage: USAGE }, USAGE, values.json);
    const [command = '', ...words] = positionals;
    const run = COMMANDS[command];
    if (!run) throw new UsageError(command === '' ? 'a command is needed' : 'there is no such command');
    if (words.length > 0 && command !== 'user') throw new UsageError('one command is needed');
    return await run(values, words);
  } catch (error) {
    if (error instanceof UsageError) return fail(`${error.message}\n\n${USAGE}`, 2, args);
    if (error instanceof AuthError) return fail('the database or Redis cannot be reached', 1, args);
    if (error instanceof MigrationError || error instanceof ConfigError) return fail(error.message, 1, args);
    throw error;
  }
}

function parse(args: string[]) {
  try {
    return parseArgs({
      args,
      allowPositionals: true,
      options: {
        json: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
        'end-all': { type: 'boolean', default: false },
        'resolve-rolled-back': { type: 'string' },
        'resolve-applied': { type: 'string' },
      },
    });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

type Values = ReturnType<typeof parse>['values'];

async function runMigrate({
  json,
  'resolve-rolled-back': rolledBack,
  'resolve-applied': done,
}: Values): Promise<number> {
  const url = loadDatabaseUrl();
  if (rolledBack !== undefined) {
    await resolveMigration(url, rolledBack, 'rolled-back');
    return say({ resolved: rolledBack }, `${rolledBack} will be run again by the next migrate`, json);
  }
  if (done !== undefined) {
    await resolveMigration(url, done, 'applied');
    return say({ resolved: done }, `${done} counts as applied`, json);
  }
  const { applied } = await migrate(url);
  const text =
    applied.length === 0 ? 'nothing to apply' : applied.map((name) => `applied ${name}`).join('\n');
  return say({ applied }, text, json);
}

async function runDoctor({ json }: Values): Promise<number> {
  const findings = await doctor(process.env);
  const isHealthy = findings.every(({ state }) => state !== 'fail');
  say({ healthy: isHealthy, findings }, describe(findings), json);
  return isHealthy ? 0 : 1;
}

/** How long a revoked token stays on record, in milliseconds: its owner may want to see what became of it. */
const KEEP_REVOKED = 30 * 86_400_000;

async function runPurge({ json }: Values): Promise<number> {
  const { REFRESH_TOKEN_TTL, SESSION_CACHE_TTL } = process.env;
  const config = loadConfig({ ...databaseVariables(), REFRESH_TOKEN_TTL, SESSION_CACHE_TTL });
  const postgres = makePostgres({ url: loadDatabaseUrl(), pool: 1, timeout: config.DATABASE_TIMEOUT });
  try {
    const now = Date.now();
    const purged = await purge(postgres.prisma, {
      // A record may be behind by what write-behind has lost: one more lifetime for certainty.
      unusedSince: (now - 2 * config.REFRESH_TOKEN_TTL * 1000) * 1000,
      revokedBefore: now - Math.max(KEEP_REVOKED, 2 * config.SESSION_CACHE_TTL * 1000),
    });
    if (purged === null) return say({ purged: 0, busy: true }, 'another purge is at work', json);
    return say({ purged }, `purged ${purged} records`, json);
  } finally {
    await postgres.close();
  }
}

async function runRecover({ json, 'end-all': endAll }: Values): Promise<number> {
  const recovered = await recover(process.env, endAll);
  const { tokens, revoked, lost, ended } = recovered;
  const lines = [
    `Redis knew ${tokens} tokens`,
    `${revoked} were revoked after the backup, and are on record as revoked again`,
    `${lost} were created after the backup, and are over`,
    ...(endAll ? [`${ended} others have been ended`] : []),
    ...(tokens === 0 && !endAll
      ? ['If Redis has lost its data too, revocations are unknown: use --end-all']
      : []),
  ];
  return say(recovered, lines.join('\n'), json);
}

async function runUser({ json }: Values, [action, name, ...rest]: string[]): Promise<number> {
  if ((action !== 'disable' && action !== 'enable') || name === undefined || rest.length > 0)
    throw new UsageError('user needs disable or enable, and a username');
  const timeout = loadConfig(databaseVariables()).DATABASE_TIMEOUT;
  const change = await changeUser(action, name, { url: loadDatabaseUrl(), timeout });
  if (!change) return fail('there is no such user', 1, json ? ['--json'] : []);
  const ended = action === 'disable' ? `, ${change.ended} tokens ended` : '';
  const result = { user: change.userId, ended: change.ended, done: change.done };
  if (change.done) return say(result, `${action}d${ended}`, json);
  say(result, `${action}d${ended}; no running replica has confirmed that they are refused`, json);
  return 1;
}

/** The other variables need not be set: a job knows the database and little else. */
function databaseVariables(): Environment {
  const { DATABASE_URL, DATABASE_URL_FILE, DATABASE_TIMEOUT } = process.env;
  return { DATABASE_URL, DATABASE_URL_FILE, DATABASE_TIMEOUT };
}

function loadDatabaseUrl(): string {
  const { DATABASE_URL: url } = loadConfig(databaseVariables());
  if (url === undefined)
    throw new ConfigError(['DATABASE_URL is required: the embedded database migrates at its start']);
  return url;
}

function say(result: object, text: string, json: boolean): number {
  process.stdout.write(`${json ? JSON.stringify(result) : text}\n`);
  return 0;
}

function fail(message: string, code: number, args: string[]): number {
  process.stderr.write(`${args.includes('--json') ? JSON.stringify({ error: message }) : message}\n`);
  return code;
}

// Last, since everything above has to be there by then.
process.exitCode = await main(process.argv.slice(2));
