import { accessSync, constants } from 'node:fs';
import type { Values } from './fields.ts';

/** The parameters of DATABASE_URL that name files. */
const FILES = ['sslrootcert', 'sslcert', 'sslkey'];

/** Problems of the DATABASE_ variables in combination. Each was parsed before; an invalid one is undefined. */
export function databaseProblems({ DATABASE_URL: url, DATABASE_CA: ca }: Partial<Values>): string[] {
  const query = url === undefined ? new URLSearchParams() : new URL(url).searchParams;
  const problems = FILES.flatMap((name) => missingFile(name, query.get(name)));
  if (ca === undefined) return problems;
  if (query.get('sslmode') !== 'verify-full')
    problems.push('DATABASE_CA needs a DATABASE_URL with sslmode=verify-full');
  if (query.has('sslrootcert')) problems.push('DATABASE_CA and sslrootcert of DATABASE_URL are both set');
  return problems;
}

function missingFile(name: string, path: string | null): string[] {
  // pg takes an empty one as missing.
  if (path === null || path === '') return [];
  try {
    accessSync(path, constants.R_OK);
    return [];
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    return [`DATABASE_URL: ${name}=${path} cannot be read (${code})`];
  }
}
