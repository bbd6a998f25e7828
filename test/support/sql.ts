import pg from 'pg';

/** Runs one statement behind the service's back. */
export async function sql<Row extends pg.QueryResultRow>(
  databaseUrl: string,
  text: string,
  values: unknown[] = [],
): Promise<Row[]> {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  try {
    return (await client.query<Row>(text, values)).rows;
  } finally {
    await client.end();
  }
}

/** Closes an account, as an operator does. */
export async function disableUser(databaseUrl: string, username: string): Promise<void> {
  await sql(databaseUrl, 'UPDATE users SET disabled_at = now() WHERE username = $1', [username]);
}

/** The numbers of rows, to show that nothing was written. */
export async function countRows(databaseUrl: string): Promise<{ users: number; tokens: number }> {
  const [row] = await sql<{ users: number; tokens: number }>(
    databaseUrl,
    'SELECT (SELECT count(*)::int FROM users) AS users, (SELECT count(*)::int FROM tokens) AS tokens',
  );
  return row ?? { users: NaN, tokens: NaN };
}
