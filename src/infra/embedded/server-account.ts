import { readFileSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { packageRoot } from '../postgres/migration-files.ts';
import { EmbeddedDatabaseError } from './embedded-database-error.ts';

/** The system user to run PostgreSQL as; undefined means our own. */
export type Account = { uid: number; gid: number } | undefined;

const UNPRIVILEGED = 'nobody';

/**
 * PostgreSQL refuses to run as root, so root runs it as another user: the owner of the data, else the owner of the data
 * folder or of the project, else the system user without rights.
 * @throws EmbeddedDatabaseError if there is no such user
 */
export function serverAccount(dataDir: string): Account {
  if (process.getuid?.() !== 0) return undefined;
  const users = knownUsers();
  const owners = [join(dataDir, 'postgres'), nearestExisting(dataDir), packageRoot()].map(ownerOf);
  for (const uid of owners) {
    const user = users.find((candidate) => candidate.uid === uid);
    if (user && user.uid !== 0) return { uid: user.uid, gid: user.gid };
  }
  const unprivileged = users.find((user) => user.name === UNPRIVILEGED);
  if (unprivileged) return { uid: unprivileged.uid, gid: unprivileged.gid };
  throw new EmbeddedDatabaseError(
    `PostgreSQL does not run as root, and /etc/passwd has no user ${UNPRIVILEGED} to run it: start as another user, or set DATABASE_URL`,
  );
}

/** The users in /etc/passwd: initdb refuses any other. */
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
