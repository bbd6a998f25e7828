import { ACCOUNT_FIELDS, fieldsOf, type FieldOf } from '../domain/users/account-fields.ts';
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

/** A field without a value is left out: an import of an earlier release refuses a line with a field that it does not know. */
function lineOf({ passwordHash, createdAt, ...columns }: ExportedAccount): Record<string, unknown> {
  const values: Record<FieldOf<'export'>, unknown> = {
    ...columns,
    hash: hashAsText(passwordHash),
    createdAt: new Date(createdAt).toISOString(),
  };
  const shown = fieldsOf('export').filter((field) => values[field] !== null);
  return Object.fromEntries(shown.map((field) => [ACCOUNT_FIELDS[field].json, values[field]]));
}
