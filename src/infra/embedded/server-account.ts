import { execFileSync } from 'node:child_process';
import { lchownSync, lstatSync, readdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { EmbeddedDatabaseError } from './embedded-database-error.ts';

/** The user and group to run PostgreSQL's programs as; undefined means our own. */
export type Account = { uid: number; gid: number } | undefined;

const UNPRIVILEGED = 'nobody';

/** Ids that Debian and systemd leave free. Ids below 65536 exist in a container that maps ids, too. */
const [FIRST_ID, LAST_ID] = [60_600, 61_100];

/**
 * PostgreSQL refuses to run as root, so root runs it as the owner of the data folder, or if that is root too, under an
 * id that no account and no other process has. A process of the same user and group could open /proc/PID/cwd, and
 * there rewrite pg_hba.conf or read every hash.
 * @param dataDir exists, and no server runs there: a cluster keeps its id unless another process has it by now.
 * @throws EmbeddedDatabaseError if every id is taken
 */
export function serverAccount(dataDir: string): Account {
  if (process.getuid?.() !== 0) return undefined;
  const { uid: owner } = statSync(dataDir);
  if (owner !== 0) return { uid: owner, gid: knownUsers().find(({ uid }) => uid === owner)?.gid ?? owner };
  const present = statSync(join(dataDir, 'postgres'), { throwIfNoEntry: false })?.uid;
  const id = freeId(present);
  return { uid: id, gid: id };
}

/**
 * The account for initdb, which refuses a user without a name. If `server` has none, this is an unprivileged user in a
 * group of its own: the kernel lets a process look into another one only if their groups are the same, too.
 * @throws EmbeddedDatabaseError if there is no such user
 */
export function initdbAccount(server: Account): Account {
  if (!server || knownUsers().some(({ uid }) => uid === server.uid)) return server;
  const unprivileged = knownUsers().find(({ name }) => name === UNPRIVILEGED);
  if (unprivileged) return { uid: unprivileged.uid, gid: freeId(server.gid) };
  throw new EmbeddedDatabaseError(
    `PostgreSQL does not run as root, and /etc/passwd has no user ${UNPRIVILEGED} to create its data: start as another user, or set DATABASE_URL`,
  );
}

/**
 * Gives a folder and all that is in it to an account. Goes from the top down: what is in a folder of the new owner, the
 * former one can no longer exchange. Only root may be able to exchange the folder itself.
 * @throws EmbeddedDatabaseError for a file with another name elsewhere: the former owner may have linked a file of root;
 * and for a link to what belongs to others, which is left to them
 */
export function giveTo(path: string, account: NonNullable<Account>): void {
  const info = lstatSync(path);
  if (info.isSymbolicLink() && statSync(path).uid !== account.uid)
    throw new EmbeddedDatabaseError(
      `${path} is a link to data of another user: run \`chown -R ${account.uid}:${account.gid} ${realpathSync(path)}\`, or set another DATA_DIR`,
    );
  if (info.uid !== account.uid || info.gid !== account.gid) {
    if (info.isFile() && info.nlink > 1)
      throw new EmbeddedDatabaseError(
        `${path} is a hard link to a file that may belong elsewhere: replace it by a copy, or set another DATA_DIR`,
      );
    lchownSync(path, account.uid, account.gid);
  }
  if (info.isDirectory()) for (const name of readdirSync(path)) giveTo(join(path, name), account);
}

/** An id for a user and a group. @param preferred is taken if it is one. */
function freeId(preferred = 0): number {
  const taken = new Set([...listedIds(), ...processIds()]);
  const count = LAST_ID - FIRST_ID + 1;
  // Two starts at the same time find the same ids free.
  const offset = Math.floor(Math.random() * count);
  const ids = Array.from({ length: count }, (_, i) => FIRST_ID + ((offset + i) % count)).filter(
    (id) => !taken.has(id),
  );
  const [first] = ids;
  if (first !== undefined) return ids.includes(preferred) ? preferred : first;
  throw new EmbeddedDatabaseError(
    `PostgreSQL does not run as root, and each user id from ${FIRST_ID} to ${LAST_ID} is in use: start as another user, or set DATABASE_URL`,
  );
}

/** The users in /etc/passwd. */
function knownUsers(): { name: string; uid: number; gid: number }[] {
  return fieldsOf('/etc/passwd').map(([name = '', , uid, gid]) => ({
    name,
    uid: Number(uid),
    gid: Number(gid),
  }));
}

/** Ids of users and groups that have a name. */
function listedIds(): number[] {
  const groups = fieldsOf('/etc/group').map(([, , gid]) => Number(gid));
  return [...knownUsers().flatMap(({ uid, gid }) => [uid, gid]), ...groups];
}

function fieldsOf(file: string): string[][] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
    .filter((fields) => fields.length > 2);
}

/** Ids of the users and groups of all processes. */
function processIds(): number[] {
  if (process.platform !== 'linux')
    return numbersIn(execFileSync('ps', ['-axo', 'uid=,ruid=,gid=,rgid='], { encoding: 'utf8' }));
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const status = readFileSync(`/proc/${pid}/status`, 'utf8');
        return numbersIn((status.match(/^(Uid|Gid|Groups):.*$/gm) ?? []).join(' '));
      } catch {
        // It has just ended.
        return [];
      }
    });
}

function numbersIn(text: string): number[] {
  return (text.match(/\d+/g) ?? []).map(Number);
}
