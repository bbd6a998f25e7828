import type { KeyRecord } from '../../domain/access-tokens/key-lifecycle.ts';
import type { PrismaClient } from '../../generated/prisma/client.ts';
import { mapDatabaseErrors } from './errors.ts';

export interface KeyRecords {
  /** This server's clock, in milliseconds since 1970. */
  now: number;
  records: Map<string, KeyRecord>;
}

/** Reads what the replicas have recorded about their keys. @throws AuthError `unavailable` */
export function readKeyRecords(prisma: PrismaClient): Promise<KeyRecords> {
  return mapDatabaseErrors(async () => {
    const [clock] = await prisma.$queryRaw<[{ now: Date }]>`SELECT statement_timestamp() AS now`;
    const rows = await prisma.publishedKey.findMany();
    const records = rows.map((row): [string, KeyRecord] => {
      const { kid, publishedAt, signsSince, signedAt } = row;
      return [
        kid,
        {
          publishedAt: publishedAt?.getTime() ?? null,
          signsSince: signsSince?.getTime() ?? null,
          signedAt: signedAt?.getTime() ?? null,
        },
      ];
    });
    return { now: clock.now.getTime(), records: new Map(records) };
  });
}

/** Rows per statement: no index serves this query, so it reads all tokens, and no statement may take long. */
const PAGE = 50_000;

interface Page {
  last: bigint | null;
  groups: { kid: string; count: number }[];
}

/** Counts the good long-lived tokens by the key that signed them. @throws AuthError `unavailable` */
export async function countLongLived(
  prisma: PrismaClient,
  page = PAGE,
): Promise<ReadonlyMap<string, number>> {
  const signedBy = new Map<string, number>();
  let after: bigint | null = 0n;
  while (after !== null) {
    const { last, groups }: Page = await mapDatabaseErrors(() => readPage(prisma, after ?? 0n, page));
    for (const { kid, count } of groups) signedBy.set(kid, (signedBy.get(kid) ?? 0) + count);
    after = last;
  }
  return signedBy;
}

async function readPage(prisma: PrismaClient, after: bigint, limit: number): Promise<Page> {
  const [end] = await prisma.$queryRaw<[{ last: bigint | null }]>`
    SELECT max(id) AS last FROM (SELECT id FROM tokens WHERE id > ${after} ORDER BY id LIMIT ${limit}) AS page`;
  if (end.last === null) return { last: null, groups: [] };
  const groups = await prisma.$queryRaw<Page['groups']>`
    SELECT kid, count(*)::int AS count FROM tokens
    WHERE id > ${after} AND id <= ${end.last} AND type = 'llt' AND revoked_at IS NULL
      AND (expires_at IS NULL OR expires_at > statement_timestamp())
    GROUP BY kid`;
  return { last: end.last, groups };
}
