import { parseArgs } from 'node:util';

/** Exit codes: 0 done, 1 failed, 2 not understood. */
export const USAGE = `Usage: latchkey COMMAND [--json]

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
  client rotate NAME                  a new secret beside the one in use; both are good
  client rotate NAME --again          another in its place: it was lost
  client rotate NAME --finish         only the newest secret is good from now on
  client delete NAME                  refuse the service`;

/** The arguments are not understood. */
export class UsageError extends Error {}

const OPTIONS = {
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
  alg: { type: 'string', default: 'ES256' },
  force: { type: 'boolean', default: false },
  'end-all': { type: 'boolean', default: false },
  wait: { type: 'string', default: '120' },
  again: { type: 'boolean', default: false },
  finish: { type: 'boolean', default: false },
  'resolve-rolled-back': { type: 'string' },
  'resolve-applied': { type: 'string' },
} as const;

/** @throws UsageError */
export function parseArguments(args: string[]) {
  try {
    return parseArgs({ args, allowPositionals: true, options: OPTIONS });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

/** The options, with what they are where they are not given. */
export type Values = ReturnType<typeof parseArguments>['values'];
