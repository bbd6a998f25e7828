import { canonicalAddress } from '../../domain/address.ts';

/** The `email_key` of a row that waits for it: 1.0.0 has written the address, and a trigger of the migration this. */
export const WAITING = '';

/** Runs a statement with arguments $1, $2, … @returns the rows. */
export type RunStatement = <Row extends Record<string, unknown>>(
  sql: string,
  values: unknown[],
) => Promise<Row[]>;

/**
 * `waiting`: those of which a trigger says so, and which an index finds. `all`: also those from before the trigger, for
 * which every row is read.
 */
export type Unkeyed = 'waiting' | 'all';

const PAGE = 1000;
const UNKEYED: Readonly<Record<Unkeyed, string>> = {
  waiting: `email_key = '${WAITING}'`,
  all: `(email_key = '${WAITING}' OR email_key IS NULL AND (email !~ '^[ -~]*$' OR email LIKE '%xn--%'))`,
};
const missing = (which: Unkeyed) => `SELECT users.id::text AS id, email FROM users
  WHERE ${UNKEYED[which]} AND users.id > $1::text::bigint ORDER BY users.id LIMIT ${PAGE}`;
// Locks in the order of ids, as every writer of many rows does. Who changes the address meanwhile leaves no key.
const FILL = `WITH keyed AS (
    SELECT * FROM unnest($1::text[]::bigint[], $2::text[], $3::text[]) AS keyed (id, email, key)
  ), locked AS MATERIALIZED (
    SELECT users.id, keyed.key FROM users JOIN keyed USING (id, email)
    WHERE coalesce(users.email_key, '${WAITING}') = '${WAITING}' ORDER BY users.id FOR NO KEY UPDATE OF users
  )
  UPDATE users SET email_key = locked.key FROM locked WHERE users.id = locked.id RETURNING users.id::text`;

/**
 * Gives the addresses that 1.0.0 has written the form in which they are compared, which SQL cannot compute. A repeat
 * goes on where an earlier call stopped. Rejects with the error of `run`.
 * @returns how many got it.
 */
export async function fillAddressKeys(run: RunStatement, which: Unkeyed = 'waiting'): Promise<number> {
  let [after, filled] = ['0', 0];
  for (;;) {
    const rows = await run<{ id: string; email: string }>(missing(which), [after]);
    const last = rows.at(-1);
    if (last === undefined) return filled;
    const [ids, emails] = [rows.map(({ id }) => id), rows.map(({ email }) => email)];
    filled += (await run(FILL, [ids, emails, emails.map(canonicalAddress)])).length;
    after = last.id;
  }
}
