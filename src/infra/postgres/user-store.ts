import type { HashSamples } from '../../domain/passwords/ports.ts';
import { skeletonOf } from '../../domain/users/confusables.ts';
import type { UserStore } from '../../domain/users/ports.ts';
import { Prisma, type PrismaClient, type User as UserRow } from '../../generated/prisma/client.ts';
import { mapDatabaseErrors } from './errors.ts';
import { KNOWN_CLIENTS } from './known-devices.ts';
import { toUser } from './rows.ts';
import { sessionColumns } from './token-store.ts';

const TAKEN = {
  users_username_key: 'username_taken',
  username: 'username_taken',
  users_username_skeleton_key: 'username_taken',
  username_skeleton: 'username_taken',
  users_email_key: 'email_taken',
  email: 'email_taken',
} as const;

/** The accounts in PostgreSQL. */
export function makeUserStore(prisma: PrismaClient): UserStore & HashSamples {
  return {
    addWithSession: ({ username, email, name, passwordHash }, session) =>
      mapDatabaseErrors(async () => {
        const { id, tokens } = await prisma.user.create({
          data: {
            username,
            skeleton: skeletonOf(username),
            email,
            name,
            passwordHash: new Uint8Array(passwordHash),
            createdAt: new Date(session.createdAt),
            tokens: { create: sessionColumns(session) },
          },
          select: { id: true, tokens: { select: { id: true } } },
        });
        return { userId: Number(id), tokenId: Number(tokens[0]?.id) };
      }, TAKEN),

    findTaken: (username, email) =>
      mapDatabaseErrors(async () => {
        const skeleton = skeletonOf(username);
        const found = await prisma.user.findMany({
          // An account of a release before skeletons: an ASCII name is its own skeleton.
          where: {
            OR: [{ username: { in: [username, skeleton] } }, { skeleton }, { email }],
          },
          select: { username: true, skeleton: true },
        });
        if (found.length === 0) return null;
        const looksAlike = found.some(
          (user) => [username, skeleton].includes(user.username) || user.skeleton === skeleton,
        );
        return looksAlike ? 'username_taken' : 'email_taken';
      }),

    findForLogin: (name) =>
      mapDatabaseErrors(async () => {
        const where =
          'email' in name ? Prisma.sql`email = ${name.email}` : Prisma.sql`username = ${name.username}`;
        const [row] = await prisma.$queryRaw<(UserRow & { knownClients: string[] })[]>`
          SELECT id, username, name, password_hash AS "passwordHash", created_at AS "createdAt",
            disabled_at AS "disabledAt", ${KNOWN_CLIENTS}
          FROM users WHERE ${where}`;
        if (!row) return null;
        return { user: toUser(row), passwordHash: row.passwordHash, knownClients: row.knownClients };
      }),

    replaceHash: (userId, from, to) =>
      mapDatabaseErrors(async () => {
        await prisma.user.updateMany({
          where: { id: BigInt(userId), passwordHash: new Uint8Array(from) },
          data: { passwordHash: new Uint8Array(to) },
        });
      }),

    // The first 16 bytes of a hash are its algorithm and parameters.
    sampleHashes: (after, count) =>
      mapDatabaseErrors(async () => {
        const rows = await prisma.$queryRaw<{ id: bigint; password_hash: Uint8Array }[]>`
          WITH page AS (
            SELECT id, substring(password_hash FROM 1 FOR 16) AS cost FROM users
            WHERE id > ${after} ORDER BY id LIMIT ${count}
          ), samples AS (
            SELECT max(id) AS id FROM page GROUP BY cost
          )
          SELECT id, password_hash FROM samples JOIN users USING (id)`;
        return rows.map(({ id, password_hash: passwordHash }) => ({ userId: Number(id), passwordHash }));
      }),
  };
}
