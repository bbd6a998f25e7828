import { chownSync, existsSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Environment } from '../config.ts';
import { keyConfig, reportKeys } from '../doctor/key-report.ts';
import { checkKeyLife, time, type JudgedKey } from '../doctor/key-life.ts';
import type { KeyState } from '../domain/access-tokens/key-life.ts';
import type { SigningKey } from '../domain/access-tokens/ports.ts';
import { createOnce } from '../infra/crypto/generated-keys.ts';
import { nextName, readKeyFiles } from '../infra/crypto/key-files.ts';
import { generateSigningKey, parseSigningKey } from '../infra/crypto/keys.ts';
import { UsageError } from './arguments.ts';
import { CommandError, databaseOf, type Command, type Outcome } from './command.ts';
import { describe } from './doctor.ts';

const ALGORITHMS = ['ES256', 'EdDSA', 'RS256'] as const;

/** A file of a mounted Secret cannot be taken away from inside. */
const READ_ONLY = ['EROFS', 'EACCES', 'EPERM'];

/** What each state says of the moment that follows it. */
const NEXT: Record<KeyState, string> = {
  unseen: 'no replica has it yet',
  published: 'signs from',
  signing: '',
  verifying: 'retirable from',
  retirable: 'retirable since',
};

/** `latchkey keys …`. What the replicas tell each other of their keys stands in the database. */
export const run: Command = async ({ env, words: [action, which, ...rest], values: { alg, force } }) => {
  const algorithm = ALGORITHMS.find((known) => known === alg);
  if (rest.length === 0 && (which !== undefined) === (action === 'retire')) {
    if (action === 'retire') return retireKey(env, which ?? '', force);
    if (action === 'list') return listKeys(env);
    if (action === 'doctor') return examineKeys(env);
    if (action === 'add' && algorithm) return addKey(env, algorithm, Date.now());
  }
  throw new UsageError('keys needs list, add, doctor, or retire with a key; --alg is ES256, EdDSA or RS256');
};

/** `latchkey keys list`. */
async function listKeys(env: Environment): Promise<Outcome> {
  const { directory, keys } = await reportKeys(env, databaseOf(env).url);
  const lines = keys.map(({ kid, files, algorithm, state, since, next, longLived }) => {
    const when = next === null ? '' : `, ${NEXT[state]} ${time(next)}`;
    const tokens = longLived > 0 ? `, ${longLived} long-lived tokens` : '';
    const from =
      since === null
        ? ''
        : state === 'verifying'
          ? ` (signed until ${time(since)})`
          : ` since ${time(since)}`;
    return `${kid}  ${algorithm}  ${files.join(' = ')}  ${state}${from}${when}${tokens}`;
  });
  const shown = keys.map((key) => ({
    ...key,
    ...{ createdAt: isoOf(key.createdAt), since: isoOf(key.since), next: isoOf(key.next) },
  }));
  return {
    result: { directory, keys: shown },
    text: lines.join('\n') || `no keys in ${directory}`,
  };
}

/** `latchkey keys doctor`. */
async function examineKeys(env: Environment): Promise<Outcome> {
  const { keys, now } = await reportKeys(env, databaseOf(env).url);
  const findings = checkKeyLife(keys, now);
  return { result: { findings }, text: describe(findings) };
}

/** `latchkey keys add`: a new key with the highest name. It needs no database. @param now ms since 1970. */
function addKey(env: Environment, algorithm: SigningKey['algorithm'], now: number): Outcome {
  const { directory, KEY_PUBLISH_LEAD: lead } = keyConfig(env);
  // One that cannot be read would keep the replicas from taking the new one up.
  const names = existsSync(directory) ? readKeyFiles(directory).map(({ name }) => name) : [];
  const name = nextName(names, now);
  const file = join(directory, name);
  const pem = generateSigningKey(algorithm);
  if (!createOnce(file, () => pem)) throw new CommandError(`${file} has just been made by somebody else`);
  // Made by root, it would be of no use to a service that is not.
  const { uid, gid } = statSync(directory);
  if (process.getuid?.() === 0 && uid !== 0) chownSync(file, uid, gid);
  const { kid } = parseSigningKey(pem, name);
  const when =
    names.length === 0
      ? 'it is the only one, and signs at once'
      : `it signs ${lead} s after the last replica has it, not before ${time(now + lead * 1000)}`;
  const signsFrom = names.length === 0 ? null : isoOf(now + lead * 1000);
  return {
    result: { kid, algorithm, file, signsFrom },
    text: `${file}: ${algorithm} ${kid}; ${when}`,
  };
}

/**
 * `latchkey keys retire KID`: takes a key's file away, once nothing that it signed is good any more.
 * @param which its id, or the name of its file. @param force the key has leaked: whatever it signed is to end.
 */
async function retireKey(env: Environment, which: string, force: boolean): Promise<Outcome> {
  const { directory, keys } = await reportKeys(env, databaseOf(env).url);
  const key = keys.find(({ kid, files }) => kid === which || files.includes(which));
  if (!key) throw new CommandError(`there is no such key in ${directory}`);
  const { kid, file, files, next } = key;
  const facts = { kid, file: join(directory, file), files };
  const refusal = keys.length === 1 ? 'it is the only key: `latchkey keys add` first' : reasonToKeep(key);
  if (refusal !== null && (!force || keys.length === 1))
    throw new CommandError(refusal, { ...facts, retired: false, from: isoOf(next) });
  try {
    // All of them: under any one it would go on signing.
    for (const name of files) rmSync(join(directory, name));
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (!READ_ONLY.includes(code)) throw error;
    const todo = `${files.join(', ')} cannot be removed from ${directory} (${code}): take ${files.join(', ')} out of the Secret that is mounted there`;
    throw new CommandError(todo, { ...facts, retired: false, remove: files });
  }
  return {
    result: { ...facts, retired: true },
    text: `removed ${files.map((name) => join(directory, name)).join(', ')}${broken(key)}`,
  };
}

/** Why a key may not go yet, and from when on it may; null where it may. */
function reasonToKeep({ state, longLived, next, file }: JudgedKey): string | null {
  if (state === 'signing') return `${file} signs: \`latchkey keys add\` makes the one that follows it`;
  if (state === 'unseen')
    return `no running replica has said anything of ${file}: whether it is in use cannot be told`;
  if (state !== 'verifying') return null;
  if (longLived > 0)
    return `${file} is needed for ${longLived} long-lived tokens, which never expire: they have to be deleted first`;
  return `access tokens that ${file} signed may be good until ${time(next)}: it can be retired from then on`;
}

function broken({ state, longLived }: JudgedKey): string {
  if (state !== 'signing' && state !== 'verifying') return '';
  const tokens = longLived > 0 ? `, and ${longLived} long-lived tokens are over for good` : '';
  return `: access tokens that it signed are refused within seconds, and clients refresh them${tokens}`;
}

function isoOf(at: number | null): string | null {
  return at === null ? null : new Date(at).toISOString();
}
