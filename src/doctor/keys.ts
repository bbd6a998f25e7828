import { existsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Config } from '../config/config.ts';
import { fileOfVariable, type Environment } from '../config/environment.ts';
import { FIELDS } from '../config/fields.ts';
import { pemNames, readKeyFiles } from '../infra/crypto/key-files.ts';
import { fail, ok, warn, type Finding } from './finding.ts';

/** Days after which a key or secret should have a successor. */
export const MAX_AGE = 365;

/** Checks the keys and their files. Creates none. @param now ms since 1970. */
export function checkKeys(config: Config, env: Environment, now: number): Finding[] {
  const directory = config.SIGNING_KEYS_DIR ?? join(config.DATA_DIR, 'keys');
  const [generatedSecret, generatedFactorKeys] = ['refresh-token-secret', 'factor-keys'].map((name) =>
    join(config.DATA_DIR, name),
  ) as [string, string];
  const secret =
    fileOfVariable(env, 'REFRESH_TOKEN_SECRET') ?? (config.readRefreshSecrets ? undefined : generatedSecret);
  const names = existsSync(directory) ? pemNames(directory) : [];
  const pems = names.map((name) => join(directory, name));
  const generated = [generatedSecret, generatedFactorKeys];
  const files = [...pems, ...secretFiles(env), ...generated].filter((file) => existsSync(file));
  return [
    judgeNewestKey(directory, names.length, now),
    judgeRefreshSecret(secret, now),
    judgeFiles([...new Set(files)]),
  ];
}

/** The key with the highest name will sign. key-lifecycle.ts reports which one signs now. */
function judgeNewestKey(directory: string, count: number, now: number): Finding {
  const check = 'signing keys';
  const [newest] = count === 0 ? [] : readKeyFiles(directory);
  if (!newest) return ok(check, `none yet: the first start creates one in ${directory}`);
  const { key, name } = newest;
  const found = `${count} in ${directory}; ${name}, the highest by name (${key.algorithm}), is`;
  const isDated = key.createdAt !== statSync(join(directory, name)).mtimeMs;
  if (!isDated && isMountedSecret(directory))
    return ok(
      check,
      `${found} of unknown age: a mounted Secret is written again for every pod, and ${name} does not begin with a date`,
    );
  const age = daysSince(key.createdAt, now);
  const aged = `${found} ${age} days old by its file${isDated ? "'s name" : ''}`;
  if (age <= MAX_AGE) return ok(check, aged);
  return warn(
    check,
    aged,
    'add one with a higher file name; keep old ones until no good token is signed with them',
  );
}

function judgeRefreshSecret(file: string | undefined, now: number): Finding {
  const check = 'refresh token secret';
  if (file === undefined) return ok(check, 'set as a variable: its age is unknown');
  if (!existsSync(file)) return ok(check, 'none yet: the first start creates one');
  if (isMountedSecret(dirname(file)))
    return ok(check, 'its age is unknown: a mounted Secret is written again for every pod');
  const age = daysSince(statSync(file).mtimeMs, now);
  const found = `its file is ${age} days old`;
  if (age <= MAX_AGE) return ok(check, found);
  return warn(
    check,
    found,
    'put a new secret in front of it, and remove the old one after REFRESH_TOKEN_TTL',
  );
}

function judgeFiles(files: string[]): Finding {
  const check = 'files with secrets';
  const modes = files.map((file) => ({ file, mode: statSync(file).mode }));
  const writable = modes.filter(({ mode }) => (mode & 0o022) !== 0).map(({ file }) => file);
  if (writable.length > 0) return fail(check, `other users may change ${writable.join(', ')}`, 'chmod go-w');
  const readable = modes.filter(({ mode }) => (mode & 0o004) !== 0).map(({ file }) => file);
  const todo = 'chmod o-r; for a Kubernetes Secret, set defaultMode 0440';
  if (readable.length > 0)
    return warn(check, `every user of this machine may read ${readable.join(', ')}`, todo);
  return ok(
    check,
    files.length === 0 ? 'none' : `${files.length}, which other users may neither read nor change`,
  );
}

/** The files of all variables that were set as files. A CA's certificates are public. */
function secretFiles(env: Environment): string[] {
  return Object.keys(FIELDS)
    .filter((name) => !name.endsWith('_CA'))
    .flatMap((name) => fileOfVariable(env, name) ?? []);
}

/** Kubernetes keeps the mounted files in a sibling folder, and `..data` is a link to it. */
function isMountedSecret(directory: string): boolean {
  return existsSync(join(directory, '..data'));
}

export function daysSince(time: number, now: number): number {
  return Math.max(0, Math.floor((now - time) / 86_400_000));
}
