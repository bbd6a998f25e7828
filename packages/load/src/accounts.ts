import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { LoadError } from './load-error.ts';

/** A user that the kit knows. */
export interface Account {
  username: string;
  password: string;
}

export interface NewAccount extends Account {
  name: string;
  email: string;
}

/** No real address ends like this: `.invalid` is reserved (RFC 2606). It tells the kit's users from all others. */
export const EMAIL_DOMAIN = 'load.invalid';

export function anAccount(username: string, name: string, password: string): NewAccount {
  return { username, name, email: `${username}@${EMAIL_DOMAIN}`, password };
}

/** The users that one run adds. */
export interface RunAccounts {
  /** With it begin their usernames, and no others. */
  prefix: string;
  account(i: number): NewAccount;
}

/** They outlive the run if it cannot delete them, so their passwords are secret. */
export function makeRunAccounts(): RunAccounts {
  // Several testers may begin in the same millisecond.
  const run = randomBytes(5).toString('hex');
  const password = randomBytes(18).toString('base64url');
  return {
    prefix: `load-${run}-`,
    account: (i) => anAccount(`load-${run}-${i}`, `Load ${run} ${i}`, password),
  };
}

/**
 * Reads lines of `username,password`.
 * @throws LoadError that names the line, without its text
 */
export function readAccounts(file: string): Account[] {
  const lines = textOf('--accounts', file).split(/\r?\n/);
  const accounts = lines.flatMap((line, at) => {
    if (line.trim() === '') return [];
    const [, name = '', password] = /^([^,]+),(.+)$/.exec(line) ?? [];
    if (password === undefined || name.includes('@'))
      throw new LoadError(`--accounts: ${file}, line ${at + 1}: give username,password (no e-mail address)`);
    // As the service writes it in its answers.
    return [{ username: name.normalize('NFKC').trim().toLowerCase().normalize('NFKC'), password }];
  });
  if (accounts.length === 0) throw new LoadError(`--accounts: ${file} has no line with username,password`);
  return accounts;
}

/** @throws LoadError naming the setting */
export function textOf(setting: string, file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new LoadError(
      `${setting}: cannot read ${file}: ${(error as NodeJS.ErrnoException).code ?? 'error'}`,
    );
  }
}
