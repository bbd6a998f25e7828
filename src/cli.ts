#!/usr/bin/env node
import { parseArgs } from 'node:util';
import { manageClient, parseClientCommand } from './cli-client.ts';
import { describe, doctor } from './cli-doctor.ts';
import { recover } from './cli-recover.ts';
import { keysCommand } from './cli-keys.ts';
import { changeUser } from './cli-user.ts';
import { ConfigError, databaseVariables, loadConfig, NO_HASHES } from './config.ts';
import { AuthError } from './domain/errors.ts';
import { ENDED_SHOWN } from './domain/tokens/ended-token.ts';
import { KeyError } from './infra/crypto/keys.ts';
import { userTokens, userTokensJson, userTokensText } from './cli-user-tokens.ts';
import { makePostgres } from './infra/postgres/client.ts';
import { migrate, MigrationError, MigrationStopped, resolveMigration } from './infra/postgres/migrate.ts';
import { purge } from './infra/postgres/purge.ts';

/** Exit codes: 0 done, 1 failed, 2 not understood. */
const USAGE = `Usage: latchkey COMMAND [--json]

  migrate                             apply what is missing to DATABASE_URL
  migrate --wait SECONDS              wait for so long for a database that is not there yet (120)
  migrate --resolve-rolled-back NAME  a migration that failed half-way was undone by hand: run it again
  migrate --resolve-applied NAME      a migration that failed half-way was finished by hand
  doctor                              check configuration, stores, clocks and keys, and say what to do
  keys list                           the signing keys: which signs, since when, and what comes next
  keys add [--alg ES256|EdDSA|RS256]  make the next signing key
  keys retire KID|FILE [--force]      take a key away that nothing needs; --force: it has leaked
  keys doctor                         what is to be done about them
  purge                               delete the records of sessions long expired and of tokens long revoked
  recover                             the database was restored from a backup: end what is newer, before the service starts
  recover --end-all                   end every session and long-lived token as well
  user disable NAME                   refuse the user's logins, and end all their tokens
  user enable NAME                    let the user log in again
  user tokens NAME                    the user's sessions and long-lived tokens, and why others ended in the last 30 days
  client create NAME                  register a service that may ask about tokens; its secret is shown this once
  client list                         the registered services
  client rotate NAME                  a new secret beside the newest one; an older one is over
  client rotate NAME --finish         only the newest secret is good from now on
  client delete NAME                  refuse the service`;

/** Aborted with the exit code by a signal, where the command `endsItself`. */
const stopping = new AbortController();
let endsItself = false;

class UsageError extends Error {}

const COMMANDS: Partial<Record<string, (values: Values, words: string[]) => Promise<number>>> = {
  client: runClient,
  doctor: runDoctor,
  keys: runKeys,
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
    if (words.length > 0 && !['client', 'keys', 'user'].includes(command))
      throw new UsageError('one command is needed');
    return await run(values, words);
  } catch (error) {
    if (error instanceof UsageError) return fail(`${error.message}\n\n${USAGE}`, 2, args);
    if (error instanceof MigrationStopped) return fail(error.message, stopping.signal.reason as number, args);
    if (error instanceof AuthError) return fail('the database or Redis cannot be reached', 1, args);
    if (error instanceof MigrationError || error instanceof ConfigError || error instanceof KeyError)
      return fail(error.message, 1, args);
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
        alg: { type: 'string', default: 'ES256' },
        force: { type: 'boolean', default: false },
        'end-all': { type: 'boolean', default: false },
        wait: { type: 'string', default: '120' },
        finish: { type: 'boolean', default: false },
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
  wait,
}: Values): Promise<number> {
  if (!/^\d{1,5}$/.test(wait)) throw new UsageError('--wait is a number of seconds');
  const url = loadDatabaseUrl();
  if (rolledBack !== undefined) {
    await resolveMigration(url, rolledBack, 'rolled-back');
    return say({ resolved: rolledBack }, `${rolledBack} will be run again by the next migrate`, json);
  }
  if (done !== undefined) {
    await resolveMigration(url, done, 'applied');
    return say({ resolved: done }, `${done} counts as applied`, json);
  }
  endsItself = true;
  const { applied } = await migrate(url, {
    patience: Number(wait) * 1000,
    onWait: (reason) => {
      fail(`waiting: ${reason}`, 0, json ? ['--json'] : []);
    },
    signal: stopping.signal,
  });
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

async function runPurge({ json }: Values): Promise<number> {
  const { REFRESH_TOKEN_TTL, SESSION_CACHE_TTL } = process.env;
  const config = loadConfig(
    { ...databaseVariables(process.env), REFRESH_TOKEN_TTL, SESSION_CACHE_TTL },
    NO_HASHES,
  );
  const postgres = makePostgres({ url: loadDatabaseUrl(), pool: 1, timeout: config.DATABASE_TIMEOUT });
  try {
    const now = Date.now();
    const ttl = config.REFRESH_TOKEN_TTL * 1000;
    const purged = await purge(postgres.prisma, {
      // A record may be behind by what write-behind has lost: one more lifetime for certainty. And its owner may want to
      // see what became of it.
      unusedSince: (now - ttl - Math.max(ttl, ENDED_SHOWN)) * 1000,
      revokedBefore: now - Math.max(ENDED_SHOWN, 2 * config.SESSION_CACHE_TTL * 1000),
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
  if (name === undefined || rest.length > 0)
    throw new UsageError('user needs disable, enable or tokens, and a username');
  if (action === 'tokens') return runUserTokens(name, json);
  if (action !== 'disable' && action !== 'enable')
    throw new UsageError('user needs disable, enable or tokens, and a username');
  const timeout = loadConfig(databaseVariables(process.env), NO_HASHES).DATABASE_TIMEOUT;
  const change = await changeUser(action, name, { url: loadDatabaseUrl(), timeout });
  if (!change) return fail('there is no such user', 1, json ? ['--json'] : []);
  const ended = action === 'disable' ? `, ${change.ended} tokens ended` : '';
  const result = { user: change.userId, ended: change.ended, done: change.done };
  if (change.done) return say(result, `${action}d${ended}`, json);
  say(result, `${action}d${ended}; no running replica has confirmed that they are refused`, json);
  return 1;
}

async function runClient({ json, finish }: Values, words: string[]): Promise<number> {
  const command = parseClientCommand(words, finish);
  if (typeof command === 'string') throw new UsageError(command);
  const timeout = loadConfig(databaseVariables(process.env), NO_HASHES).DATABASE_TIMEOUT;
  const done = await manageClient(command, { url: loadDatabaseUrl(), timeout });
  if ('refusal' in done) return fail(done.refusal, 1, json ? ['--json'] : []);
  return say(done.result, done.text, json);
}

async function runKeys({ json, alg, force }: Values, words: string[]): Promise<number> {
  const outcome = await keysCommand(process.env, loadDatabaseUrl, words, { alg, force });
  if (!outcome)
    throw new UsageError(
      'keys needs list, add, doctor, or retire with a key; --alg is ES256, EdDSA or RS256',
    );
  const { ok, result, text } = outcome;
  if (ok) return say(result, text, json);
  process.stderr.write(`${json ? JSON.stringify(result) : text}\n`);
  return 1;
}

async function runUserTokens(name: string, json: boolean): Promise<number> {
  const { REFRESH_TOKEN_TTL, SESSION_MAX_AGE } = process.env;
  const config = loadConfig(
    { ...databaseVariables(process.env), REFRESH_TOKEN_TTL, SESSION_MAX_AGE },
    NO_HASHES,
  );
  const database = { url: loadDatabaseUrl(), timeout: config.DATABASE_TIMEOUT };
  const found = await userTokens(name, database, {
    accessToken: config.ACCESS_TOKEN_TTL,
    refreshToken: config.REFRESH_TOKEN_TTL,
    session: config.SESSION_MAX_AGE,
  });
  if (!found) return fail('there is no such user', 1, json ? ['--json'] : []);
  return say(userTokensJson(found), userTokensText(found), json);
}

function loadDatabaseUrl(): string {
  const { DATABASE_URL: url } = loadConfig(databaseVariables(process.env), NO_HASHES);
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
