import type { PrismaClient } from '../generated/prisma/client.ts';
import { hashAsText } from '../infra/crypto/new-stored-hash.ts';
import { pageToExport, type ExportedAccount } from '../infra/postgres/account-store.ts';
import type { Command, Facts } from './command.ts';
import { withPostgres } from './database.ts';
import { writeLines } from './output-file.ts';

/** Accounts per query. */
const PAGE = 500;

/** `latchkey user export [FILE]`: what `user import` reads. */
export const exportUsers: Command = ({ env, words: [path], note, stopped }) =>
  withPostgres(env, async ({ prisma }) => {
    const counts = { exported: 0 };
    const lines = exportLines(prisma, counts, note);
    await writeLines(lines, path, stopped);
    return {
      result: { ...counts },
      text: `exported ${counts.exported} accounts, with their password hashes and e-mail addresses`,
      hasOutput: path === undefined,
      audited: { ...counts },
    };
  });

/** One page at a time, as fast as it is written. */
async function* exportLines(
  prisma: PrismaClient,
  counts: { exported: number },
  note: (facts: Facts) => void,
): AsyncGenerator<string> {
  for (let after = 0; ;) {
    const page = await pageToExport(prisma, after, PAGE);
    if (page.length === 0) return;
    yield page.map((user) => `${JSON.stringify(lineOf(user))}\n`).join('');
    counts.exported += page.length;
    note({ ...counts });
    after = page.at(-1)?.id ?? after;
  }
}

function lineOf({ id: _, passwordHash, externalId, createdAt, emailVerified, ...columns }: ExportedAccount) {
  return {
    ...columns,
    // An import of 1.0.0 refuses the field, so accounts without one do not have it.
    ...(externalId !== null && { external_id: externalId }),
    password_hash: hashAsText(passwordHash),
    created_at: new Date(createdAt).toISOString(),
    email_verified: emailVerified,
  };
}
