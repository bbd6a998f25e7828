import type { UserStore } from '../../domain/users/ports.ts';
import type { PrismaClient } from '../../generated/prisma/client.ts';
import { orAuthError } from './errors.ts';
import { toUser } from './rows.ts';
import { sessionColumns } from './token-store.ts';

const TAKEN = {
  users_username_key: 'username_taken',
  username: 'username_taken',
  users_email_key: 'email_taken',
  email: 'email_taken',
} as const;

/** The accounts in PostgreSQL. */
export function makeUserStore(prisma: PrismaClient): UserStore {
  return {
    addWithSession: ({ username, email, name, passwordHash }, session) =>
      orAuthError(async () => {
        const { id, tokens } = await prisma.user.create({
          data: {
            username,
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
      orAuthError(async () => {
        const found = await prisma.user.findMany({
          where: { OR: [{ username }, { email }] },
          select: { username: true },
        });
        if (found.length === 0) return null;
        return found.some((user) => user.username === username) ? 'username_taken' : 'email_taken';
      }),

    findForLogin: (name) =>
      orAuthError(async () => {
        const row = await prisma.user.findUnique({ where: name });
        return row && { user: toUser(row), passwordHash: row.passwordHash };
      }),

    replaceHash: (userId, from, to) =>
      orAuthError(async () => {
        await prisma.user.updateMany({
          where: { id: BigInt(userId), passwordHash: new Uint8Array(from) },
          data: { passwordHash: new Uint8Array(to) },
        });
      }),
  };
}
