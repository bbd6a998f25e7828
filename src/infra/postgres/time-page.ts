import { IS_STANDBY, refuseStandby } from './errors.ts';
import { prepare, type Prepared, type RunPrepared } from './prepared.ts';

/**
 * Rows of the last `ago` milliseconds by the database's clock, or those after a row, by its time (ms since 1970) and id.
 */
export type TimePageStart = { ago: number } | { at: number; id: number };

/** No id is greater. */
const MAX_ID = Number.MAX_SAFE_INTEGER;

/**
 * A statement that reads rows by a time, oldest first. Pages go on by the time and the id, as the index does: if they
 * went on by the id alone, each would read every row of that time. A page is one text, because a row for each item would
 * cost far more. The first condition lets PostgreSQL use its index, which is partial: a comparison of two columns does
 * not tell it that neither is null.
 * @param item an expression of JSON. It may use `$3`, the milliseconds of `ago`.
 */
export function timePage(table: string, time: string, columns: string, item: string): Prepared {
  return prepare(`
  WITH start AS (SELECT coalesce($1, statement_timestamp() - $3::float8 * interval '1 millisecond') AS at)
  SELECT ${IS_STANDBY.text}, max(${time}) AS last, json_agg(${item} ORDER BY ${time}, id)::text AS items
  FROM (
    SELECT id, ${time}, ${columns} FROM ${table}, start
    WHERE ${time} >= start.at AND (${time}, id) > (start.at, $2::bigint)
    ORDER BY ${time}, id LIMIT $4) AS page`);
}

/** @param ago for `$3` of a page that does not begin there. */
export async function readTimePage(
  run: RunPrepared,
  statement: Prepared,
  from: TimePageStart,
  limit: number,
  ago = 0,
): Promise<{ items: unknown[]; last: number }> {
  const values = 'ago' in from ? [null, MAX_ID, from.ago, limit] : [new Date(from.at), from.id, ago, limit];
  const rows = await run<{ isStandby: boolean; items: string | null; last: Date | null }>(statement, values);
  const [{ items, last }] = refuseStandby(rows);
  return { items: JSON.parse(items ?? '[]') as unknown[], last: last?.getTime() ?? 0 };
}
