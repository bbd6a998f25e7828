#!/usr/bin/env node
import { parseArgs } from 'node:util';
import { ConfigError, loadConfig } from './config.ts';
import { migrate, MigrationError, resolveMigration } from './infra/postgres/migrate.ts';

/** Exit codes: 0 done, 1 failed, 2 not understood. */
const USAGE = `Usage: latchkey COMMAND [--json]

  migrate                             apply what is missing to DATABASE_URL
  migrate --resolve-rolled-back NAME  a migration that failed half-way was undone by hand: run it again
  migrate --resolve-applied NAME      a migration that failed half-way was finished by hand`;

class UsageError extends Error {}

process.exitCode = await main(process.argv.slice(2));

async function main(args: string[]): Promise<number> {
  try {
    const { values, positionals } = parse(args);
    if (values.help) return say({ usage: USAGE }, USAGE, values.json);
    if (positionals.length !== 1 || positionals[0] !== 'migrate')
      throw new UsageError('there is no such command');
    return await runMigrate(values);
  } catch (error) {
    if (error instanceof UsageError) return fail(`${error.message}\n\n${USAGE}`, 2, args);
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

/** The other variables need not be set: a migration job knows the database and nothing else. */
function loadDatabaseUrl(): string {
  const { DATABASE_URL, DATABASE_URL_FILE } = process.env;
  const { DATABASE_URL: url } = loadConfig({ DATABASE_URL, DATABASE_URL_FILE });
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
