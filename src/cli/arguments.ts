import { parseArgs } from 'node:util';

/** Exit codes: 0 success, 1 failure, 2 wrong arguments. */
export const USAGE = `Usage: latchkey COMMAND [--json]
       latchkey COMMAND --help         what this text says about one command
       latchkey --version              the version, and the commit it was built from

  migrate                             apply the migrations that DATABASE_URL lacks
  migrate --wait SECONDS              wait this long for a database that is not up yet, or for what is in the way (120)
  migrate --resolve-rolled-back NAME  run a migration again whose end 1.0.0 did not learn
  migrate --resolve-applied NAME      count a migration as applied that failed and was done by hand
  doctor                              check configuration, stores, clocks and keys, and say what to do
  explain < FILE                      say why the token in FILE is good or refused, and what to do
  keys list                           list the signing keys: which one signs, since when, and what comes next
  keys add [--alg ES256|EdDSA|RS256]  make the next signing key
  keys retire KID|FILE [--force]      remove a key that is no longer needed; --force removes one that has leaked,
                                      which ends all tokens that it signed
  keys doctor                         check the signing keys, and say what to do
  readers list [--service NAME] [--key KID] [--below VERSION]
                                      list the processes of services that follow the feed: how far each has applied it,
                                      and when it was last seen; those that hold a key, or run an older VERSION
  readers enforced --token ID         say which of them refuse a token that has ended
  readers enforced --id USER          the same of all ended tokens of a user
  readers enforced --all              the same of everything that has ended until now
  readers enforced --wait SECONDS     wait this long until all do, 0 to 30 (30)
                                      It ends with code 0 once all do.
  readers forget NAME [INSTANCE]      remove the readers of a service, or one instance, that will not come back
  drill [--url [AUDIENCE=]URL]        log an account of its own in and out, and measure until the URLs answer 401 and all
                                      readers refuse its token; --url may be repeated, and AUDIENCE=URL is asked with a
                                      token for that audience
  drill --latchkey URL                where to log in, if that is not ISSUER
  drill --timeout SECONDS             fail after this long, 1 to 600 (60)
  factors rekey                       encrypt every authenticator app's secret under the first of FACTOR_KEYS; run it
                                      again to continue where it stopped
  purge                               delete the records of sessions and tokens that ended long ago
  recover [--yes]                     after a restore from a backup, while no replica serves: end all tokens that are
                                      newer than the backup; --yes does not ask first
                                      It ends with code 1 if sessions that ended after the backup could be good again,
                                      as with a backup older than two SESSION_CACHE_TTL. Then choose one of these:
  recover --end-all                   also end every session and long-lived token
  recover --keep-sessions             accept that sessions whose end was lost may be good again
  recover --skip-ids NUMBER           leave out this many ids that may have been assigned since the backup (20000000)
  settings accept                     record ISSUER and AUDIENCE as the installation's, while no replica serves; new ones
                                      sign everybody out
  settings accept --retire KID        let a key go that has leaked: replicas need not have it any more
  user disable NAME                   refuse the user's logins, and end all their tokens
  user enable NAME                    let the user log in again
  user reset NAME                     make a token with which the user sets a new password, and show it once
  user roles NAME --set A,B           replace the user's roles; --set '' removes all
  user delete NAME [--yes]            delete the account, end all its tokens and reserve its names; --yes: do not ask
  user factors NAME                   list the user's second factors
  user factors NAME --remove [--yes]  remove them all, and end all the user's tokens, for somebody who has lost them; first
                                      be sure who asks; --yes: do not ask
  user tokens NAME                    list the user's live tokens, and why others ended in the last 30 days
                                      NAME is a username or an e-mail address; --id N instead names the user by id
  user show NAME                      show an account, without e-mail address and password
  user list [--after N] [--limit N]   list accounts in the order of ids: at most --limit (100), above id --after (0)
  user create NAME --display-name TEXT --email ADDRESS [--roles A,B]
                                      create an account without a password; user reset lets its user set one
  user convert --from SYSTEM IN [OUT] [--with FILE] [--drop-factors]
                                      make what user import reads, a new file OUT or standard output, from the export
                                      IN of keycloak, auth0, firebase, django, wordpress or supabase
                                      FILE has firebase's hash parameters, or the hashes that Auth0's support sends
                                      --drop-factors takes accounts whose second factor cannot come, which then open
                                      by their password alone, and succeeds if the export does not name factors
  user import FILE                    add accounts from JSON lines in FILE, or - for standard input; run it again to
                                      continue where it stopped
  user export [FILE]                  write every account as JSON lines, with password hashes, to a new FILE or to
                                      standard output
  client create NAME [--may RIGHTS] [--audience AUDIENCE] [--roles A,B]
                                      register a service, and show its secret once
                                      RIGHTS is a list, separated by commas, of introspect, revoke, revocations (these
                                      three by default), users.read, users.write, users.reset, users.email,
                                      users.factors, mails, exchange, limited, readers and call:AUDIENCE, with which the
                                      service gets tokens of its own for that audience
                                      AUDIENCE is the "aud" of tokens for this service
                                      --roles are the roles in its own tokens
  client allow NAME RIGHTS            replace the service's rights
  client roles NAME A,B               replace the service's roles; '' removes all
  client list                         list the services with their rights, audiences, roles and trusts
  client rotate NAME                  add a new secret; the one in use stays good
  client rotate NAME --again          replace the new secret, because it was lost
  client rotate NAME --finish         end the older secret
  client trust NAME --issuer ISSUER --subject SUBJECT [--jwks FILE]
                                      accept this workload's JWTs instead of the secret; FILE, or - for standard input,
                                      has the issuer's public keys; without it, they are fetched from the issuer
  client untrust NAME --issuer ISSUER --subject SUBJECT
                                      no longer accept that workload's JWTs
  client disable NAME                 refuse the service, and end its service tokens
  client enable NAME                  accept the service again; it has to get new tokens
  client end-tokens NAME              end the service's tokens; it can get new ones at once
  client delete NAME                  remove the service for good
  plan --users N                      size an installation: replicas, autoscaler, DATABASE_POOL, Redis, PostgreSQL
       [--active-share 0.2]           share of the users who come on a given day
       [--visits-per-day 4]           visits of such a user
       [--visit-length 15m]           length of a visit: 90s, 15m, 2h
       [--refresh-every 10m]          time between the refreshes of a session in use
       [--verifies-per-minute 6]      verifies of a session in use; 0 if services verify tokens themselves
       [--logins-per-day 0.1]         logins of a user who comes on that day
       [--peak 4]                     load of the busiest second as a multiple of the mean
       [--sessions-in-use N]          sessions in use at the peak, if you know them: replaces --visits-per-day
       [--verifies-per-second N]      likewise, replaces --verifies-per-minute
       [--refreshes-per-second N]     likewise, replaces --refresh-every
       [--logins-per-second N]        likewise, with signups: replaces --logins-per-day
       [--revocations-per-second N]   sessions and long-lived tokens that are ended in the busiest second; as many as
                                      logins unless you know them
       [--changes-per-second 0]       users whose names, address, roles or status change in the busiest second
       [--feed-readers 0]             services that read the feed, each process of theirs counted
       [--sessions-per-user 1.5]      sessions of a user that have not ended
       [--growth 0.02]                growth of the users in a month`;

/** The entries of USAGE, each with its form: all up to the explanation. */
const ENTRIES = USAGE.split(/\n(?= {2}[a-z])/)
  .slice(1)
  .map((lines) => ({ lines, form: lines.trim().split(/ {2,}|\n/, 1)[0] ?? '' }));

/** The entries of a command or subcommand. */
function entriesOf(words: string) {
  return ENTRIES.filter(({ form }) => `${form} `.startsWith(`${words} `));
}

/** The forms of the command that `args` name, or else the commands. The error follows, as the last line. */
export function shortUsage(args: readonly string[]): string {
  const [first = '', second = ''] = args.filter((arg) => !arg.startsWith('-'));
  const found = [entriesOf(`${first} ${second}`), entriesOf(first)].find(({ length }) => length > 0);
  const shown = found?.map(({ form }) => form) ?? [
    [...new Set(ENTRIES.map(({ form }) => form.split(' ')[0]))].join(' | '),
  ];
  const lines = shown.map((form, index) => `${index === 0 ? 'Usage:' : '      '} latchkey ${form}`);
  return [...lines, 'latchkey --help explains them.'].join('\n');
}

/** The lines of USAGE about a command, or else all. */
export function usageOf(command: string): string {
  const own = entriesOf(command).map(({ lines }) => lines);
  return own.length === 0 ? USAGE : ['Usage: latchkey COMMAND [--json]', '', ...own].join('\n');
}

/** The arguments are wrong. */
export class UsageError extends Error {}

const flag = { type: 'boolean', default: false } as const;
const text = { type: 'string' } as const;

/** Options of every command. */
const COMMON = { json: flag, version: flag, help: { ...flag, short: 'h' } } as const;

/** Each command with its own options. */
const COMMANDS = {
  // Before migrate, whose default of --wait documents show; and not a literal, because that has another.
  'readers enforced': { token: text, id: text, all: flag, wait: { ...text, default: '30' as string } },
  migrate: { wait: { ...text, default: '120' }, 'resolve-rolled-back': text, 'resolve-applied': text },
  doctor: {},
  explain: {},
  'keys list': {},
  'keys add': { alg: { ...text, default: 'ES256' } },
  'keys retire': { force: flag },
  'keys doctor': {},
  'readers list': { service: text, key: text, below: text },
  'readers forget': {},
  drill: { url: { ...text, multiple: true }, latchkey: text, timeout: { ...text, default: '60' } },
  'factors rekey': {},
  purge: {},
  recover: {
    yes: flag,
    'end-all': flag,
    'keep-sessions': flag,
    'skip-ids': { ...text, default: '20000000' },
  },
  'settings accept': { retire: text },
  'user disable': { id: text },
  'user enable': { id: text },
  'user reset': { id: text },
  'user roles': { id: text, set: text },
  'user delete': { id: text, yes: flag },
  'user factors': { id: text, remove: flag, yes: flag },
  'user tokens': { id: text },
  'user show': { id: text },
  'user list': { after: { ...text, default: '0' }, limit: { ...text, default: '100' } },
  'user create': { 'display-name': text, email: text, roles: text },
  'user convert': { from: text, with: text, 'drop-factors': flag },
  'user import': {},
  'user export': {},
  'client create': { may: text, audience: text, roles: text },
  'client allow': {},
  'client roles': {},
  'client trust': { issuer: text, subject: text, jwks: text },
  'client untrust': { issuer: text, subject: text },
  'client disable': {},
  'client enable': {},
  'client end-tokens': {},
  'client list': {},
  'client rotate': { again: flag, finish: flag },
  'client delete': {},
  plan: {
    users: text,
    'active-share': { ...text, default: '0.2' },
    // Without a default: plan.ts has to know whether they were given.
    'visits-per-day': text,
    'visit-length': { ...text, default: '15m' },
    'refresh-every': text,
    'verifies-per-minute': text,
    'logins-per-day': text,
    'sessions-in-use': text,
    'verifies-per-second': text,
    'refreshes-per-second': text,
    'logins-per-second': text,
    'revocations-per-second': text,
    'changes-per-second': text,
    'feed-readers': { ...text, default: '0' },
    peak: { ...text, default: '4' },
    'sessions-per-user': { ...text, default: '1.5' },
    growth: { ...text, default: '0.02' },
  },
} as const;

type All<Each> = (Each extends unknown ? (each: Each) => void : never) extends (all: infer Both) => void
  ? Both
  : never;

/** Options and words may stand in any order, so all options are parsed before the command is known. */
const OPTIONS = Object.assign({}, COMMON, ...Object.values(COMMANDS)) as typeof COMMON &
  All<(typeof COMMANDS)[keyof typeof COMMANDS]>;

/** @throws UsageError, also if an option belongs to another command. */
export function parseArguments(args: string[]) {
  const { values, positionals, tokens } = parsed(args);
  const command = [positionals.slice(0, 2).join(' '), positionals[0] ?? ''].find(isCommand);
  if (command === undefined) return { values, positionals };
  for (const token of tokens)
    if (token.kind === 'option' && !(token.name in COMMON) && !(token.name in COMMANDS[command]))
      throw new UsageError(`--${token.name} is an option of ${ownersOf(token.name)}, not of ${command}`);
  const given = tokens.flatMap((token) => (token.kind === 'option' ? [token.name] : []));
  return { values: { ...values, ...defaultsOf(command, given) }, positionals };
}

/** Two commands may have an option of one name, each with a default of its own. */
function defaultsOf(command: keyof typeof COMMANDS, given: readonly string[]): object {
  const own: [string, { type: string; default?: string | boolean }][] = Object.entries(COMMANDS[command]);
  return Object.fromEntries(
    own.flatMap(([name, { default: value }]) =>
      value === undefined || given.includes(name) ? [] : [[name, value]],
    ),
  );
}

function parsed(args: string[]) {
  try {
    return parseArgs({ args, allowPositionals: true, tokens: true, options: OPTIONS });
  } catch (error) {
    // Node goes on about words that begin with a hyphen, and no command takes any.
    throw new UsageError((error as Error).message.replace(/\. .*/s, ''));
  }
}

function isCommand(name: string): name is keyof typeof COMMANDS {
  return Object.hasOwn(COMMANDS, name);
}

function ownersOf(option: string): string {
  return Object.entries(COMMANDS)
    .filter(([, options]) => option in options)
    .map(([name]) => name)
    .join(', ');
}

/** The options with their defaults. */
export type Values = ReturnType<typeof parseArguments>['values'];
