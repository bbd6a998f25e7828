import { readFileSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { packageRoot } from '../postgres/migration-files.ts';
import { EmbeddedDatabaseError } from './embedded-database-error.ts';

/** The system user to run PostgreSQL as; undefined means our own. */
export type Account = { uid: number; gid: number } | undefined;

/**
 * PostgreSQL refuses to run as root, so root runs it as somebody else: the one who owns the data already,
 * else who owns the data folder or the project, else `nobody`. Throws EmbeddedDatabaseError if nobody is left.
 */
export function serverAccount(dataDir: string): Account {
  if (process.getuid?.() !== 0) return undefined;
  const users = knownUsers();
  const owners = [join(dataDir, 'postgres'), nearestExisting(dataDir), packageRoot()].map(ownerOf);
  for (const uid of owners) {
    const user = users.find((candidate) => candidate.uid === uid);
    if (user && user.uid !== 0) return { uid: user.uid, gid: user.gid };
  }
  const nobody = users.find((user) => user.name === 'nobody');
  if (nobody) return { uid: nobody.uid, gid: nobody.gid };
  throw new EmbeddedDatabaseError(
    'PostgreSQL does not run as root, and /etc/passwd has no user nobody to run it as: start as another user, or set DATABASE_URL',
  );
}

/** The users of /etc/passwd: initdb refuses one that is not there. */
function knownUsers(): { name: string; uid: number; gid: number }[] {
  return readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
    .filter((fields) => fields.length >= 7)
    .map(([name = '', , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }));
}

function nearestExisting(path: string): string {
  const full = resolve(path);
  return ownerOf(full) === undefined && full !== dirname(full) ? nearestExisting(dirname(full)) : full;
}

function ownerOf(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.uid;
}
