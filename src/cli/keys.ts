import { chownSync, existsSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Environment } from '../config/config.ts';
import { keyConfig, reportKeys } from '../doctor/key-report.ts';
import { checkKeyLife, time, type JudgedKey } from '../doctor/key-lifecycle.ts';
import type { KeyState } from '../domain/access-tokens/key-lifecycle.ts';
import type { SigningKey } from '../domain/access-tokens/ports.ts';
import { createOnce } from '../infra/crypto/generated-keys.ts';
import { nextName, readKeyFiles } from '../infra/crypto/key-files.ts';
import { generateSigningKey, parseSigningKey } from '../infra/crypto/keys.ts';
import { makeFeedReaders } from '../infra/postgres/feed-readers.ts';
import { UsageError } from './arguments.ts';
import { CommandError, isoOrNull, type Command, type Outcome } from './command.ts';
import { withDatabase, withPostgres } from './database.ts';
import { describe } from './doctor.ts';

const ALGORITHMS = ['ES256', 'EdDSA', 'RS256'] as const;

/** Error codes in the folder of a mounted Secret, which a pod cannot change. */
const READ_ONLY = ['EROFS', 'EACCES', 'EPERM'];

/** How the output of `list` names the next event of each state. */
const NEXT: Record<KeyState, string> = {
  unseen: 'no replica has it yet',
  published: 'signs from',
  signing: '',
  verifying: 'retirable from',
  retirable: 'retirable since',
};

/** `latchkey keys …`. The replicas record the state of their keys in the database. */
export const run: Command = async ({ env, words: [action, which, ...rest], values: { alg, force } }) => {
  const algorithm = ALGORITHMS.find((known) => known === alg);
  if (rest.length === 0 && (which !== undefined) === (action === 'retire')) {
    if (action === 'retire') return retireKey(env, which ?? '', force);
    if (action === 'list') return listKeys(env);
    if (action === 'doctor') return examineKeys(env);
    if (action === 'add' && algorithm) return addKey(env, algorithm, Date.now());
  }
  throw new UsageError('use keys list, add, doctor, or retire with a key; --alg is ES256, EdDSA or RS256');
};

/** `latchkey keys list`. */
async function listKeys(env: Environment): Promise<Outcome> {
  const { directory, keys } = await withDatabase(env, ({ url }) => reportKeys(env, url));
  const holders = await countHolders(env);
  const lines = keys.map(({ kid, files, algorithm, state, since, next, longLived }) => {
    const when = next === null ? '' : `, ${NEXT[state]} ${time(next)}`;
    const tokens = longLived > 0 ? `, ${longLived} long-lived tokens` : '';
    const from =
      since === null
        ? ''
        : state === 'verifying'
          ? ` (signed until ${time(since)})`
          : ` since ${time(since)}`;
    return `${kid}  ${algorithm}  ${files.join(' = ')}  ${state}${from}${when}${tokens}${heldBy(holders(kid))}`;
  });
  const shown = keys.map((key) => ({
    ...key,
    readers: holders(key.kid),
    createdAt: isoOrNull(key.createdAt),
    since: isoOrNull(key.since),
    next: isoOrNull(key.next),
  }));
  return {
    result: { directory, keys: shown },
    text: lines.join('\n') || `no keys in ${directory}`,
  };
}

/** How many readers of the feed say that they hold a key, by its id. */
async function countHolders(env: Environment): Promise<(kid: string) => number> {
  const holders = await withPostgres(env, (postgres) => makeFeedReaders(postgres).keyHolders());
  return (kid) => holders.get(kid) ?? 0;
}

function heldBy(readers: number): string {
  return readers === 0 ? '' : `, held by ${readers} ${readers === 1 ? 'reader' : 'readers'} of the feed`;
}

/** `latchkey keys doctor`. */
async function examineKeys(env: Environment): Promise<Outcome> {
  const { keys, now } = await withDatabase(env, ({ url }) => reportKeys(env, url));
  const findings = checkKeyLife(keys, now);
  return { result: { findings }, text: describe(findings) };
}

/** `latchkey keys add`: creates a key with the highest name. Needs no database. @param now ms since 1970. */
function addKey(env: Environment, algorithm: SigningKey['algorithm'], now: number): Outcome {
  const { directory, KEY_PUBLISH_LEAD: lead } = keyConfig(env);
  // Fails if any key is unreadable: replicas would not load the new key.
  const names = existsSync(directory) ? readKeyFiles(directory).map(({ name }) => name) : [];
  const name = nextName(names, now);
  const file = join(directory, name);
  const pem = generateSigningKey(algorithm);
  if (!createKey(directory, name, pem))
    throw new CommandError(`another process has just created ${file}: run \`latchkey keys list\``);
  // A service that does not run as root could not read root's file.
  const { uid, gid } = statSync(directory);
  if (process.getuid?.() === 0 && uid !== 0) chownSync(file, uid, gid);
  const { kid } = parseSigningKey(pem, name);
  const when =
    names.length === 0
      ? 'it is the only key, and signs at once'
      : `it signs ${lead} s after the last replica has loaded it, not before ${time(now + lead * 1000)}`;
  const signsFrom = names.length === 0 ? null : isoOrNull(now + lead * 1000);
  return {
    result: { kid, algorithm, file, signsFrom },
    text: `${file}: ${algorithm} ${kid}; ${when}`,
    audited: { kid, file: name },
  };
}

/** @returns false if the file existed. @throws CommandError in a folder that is read-only, as a mounted Secret is. */
function createKey(directory: string, name: string, pem: string): boolean {
  try {
    return createOnce(join(directory, name), () => pem);
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (!READ_ONLY.includes(code)) throw error;
    const todo = 'if a Secret is mounted there, add a key to the Secret';
    throw new CommandError(`${name} cannot be written to ${directory} (${code}): ${todo}`);
  }
}

/**
 * `latchkey keys retire KID`: removes a key's file, once no good token is signed with it.
 * @param which key id or file name. @param force removes a leaked key at once, and so ends all tokens that it signed.
 */
async function retireKey(env: Environment, which: string, force: boolean): Promise<Outcome> {
  const { directory, keys } = await withDatabase(env, ({ url }) => reportKeys(env, url));
  const key = keys.find(({ kid, files }) => kid === which || files.includes(which));
  if (!key) throw new CommandError(`${directory} has no such key`);
  const { kid, file, files, next } = key;
  const facts = { kid, file: join(directory, file), files };
  const refusal = keys.length === 1 ? 'it is the only key: run `latchkey keys add` first' : reasonToKeep(key);
  if (refusal !== null && (!force || keys.length === 1))
    throw new CommandError(refusal, { ...facts, retired: false, from: isoOrNull(next) });
  // Before anything is removed, because the database may be away afterwards.
  const readers = (await countHolders(env))(kid);
  try {
    // All names: under any remaining one, the key would keep signing.
    for (const name of files) rmSync(join(directory, name));
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (!READ_ONLY.includes(code)) throw error;
    const todo = `${files.join(', ')} cannot be removed from ${directory} (${code}): remove ${files.join(', ')} from the Secret that is mounted there`;
    throw new CommandError(todo, { ...facts, retired: false, remove: files });
  }
  const still = readers === 0 ? '' : `${heldBy(readers)}: latchkey readers list --key ${kid}`;
  return {
    result: { ...facts, retired: true, readers },
    audited: { kid, files: files.join(', ') },
    text: `removed ${files.map((name) => join(directory, name)).join(', ')}${broken(key)}${still}`,
  };
}

/** Why a key must not be removed yet, and when it may be; null if it may be removed now. */
function reasonToKeep({ state, longLived, next, file }: JudgedKey): string | null {
  if (state === 'signing')
    return `${file} is the signing key: create its successor with \`latchkey keys add\` first`;
  if (state === 'unseen')
    return `no running replica has reported ${file}, so it is unknown whether it is in use`;
  if (state !== 'verifying') return null;
  if (longLived > 0)
    return `${file} is needed for ${longLived} good long-lived tokens: they have to expire or be deleted first`;
  return `access tokens that ${file} signed may be good until ${time(next)}: it can be retired from then on`;
}

function broken({ state, longLived }: JudgedKey): string {
  if (state !== 'signing' && state !== 'verifying') return '';
  const tokens = longLived > 0 ? `, and ${longLived} long-lived tokens have ended for good` : '';
  return `: access tokens that it signed are refused within seconds, and clients refresh them${tokens}`;
}
