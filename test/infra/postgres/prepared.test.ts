import { test } from 'tap';
import { makePostgres } from '../../../src/infra/postgres/client.ts';
import { makeRunPrepared, prepare } from '../../../src/infra/postgres/prepared.ts';
import { openPostgres } from '../../support/open-postgres.ts';
import { startPgBouncer } from '../../support/pgbouncer.ts';
import { testDatabase } from '../../support/postgres.ts';
import { toolsMissing } from '../../support/tools.ts';

const ECHO = prepare(
  'SELECT $1::bigint AS id, $2::timestamptz AS at, $3::text[] AS names, NULL::bigint AS none',
);

test('a statement is prepared once on each connection, and its rows have the types of Prisma', async (t) => {
  const { url } = await testDatabase(t);
  const postgres = openPostgres(t, { url });
  const { run, pool } = postgres;
  const at = new Date(1_795_000_000_123);
  for (let i = 0; i < 2; i++)
    t.strictSame(await run(ECHO, [2 ** 53 - 1, at, ['a', 'b']]), [
      { id: BigInt(2 ** 53 - 1), at, names: ['a', 'b'], none: null },
    ]);
  const { rows } = await pool.query('SELECT name FROM pg_prepared_statements');
  t.strictSame(rows, [{ name: ECHO.name }]);
  t.not(prepare('SELECT 1').name, prepare('SELECT 2').name);
});

test(
  'behind a PgBouncer that knows no names, every answer is right',
  { skip: toolsMissing('bash', 'pgbouncer') },
  async (t) => {
    const { url: database } = await testDatabase(t);
    const { url } = await startPgBouncer(t, database, 3);
    const other = prepare('SELECT $1::bigint AS id, 0 AS zero');
    const replicas = [1, 2].map(() => makePostgres({ url, pool: 8, timeout: 10_000, observe: null }));
    t.teardown(() => Promise.all(replicas.map((replica) => replica.close())));
    const asked = Array.from({ length: 400 }, (_, i) => i);
    const answers = await Promise.all(
      replicas.flatMap(({ run }, replica) =>
        asked.map(async (i) => {
          const statement = (i + replica) % 3 === 0 ? other : ECHO;
          const values = statement === other ? [i] : [i, null, []];
          return Number((await run<{ id: bigint }>(statement, values))[0]?.id);
        }),
      ),
    );
    t.strictSame(answers, [...asked, ...asked]);
  },
);

test('any other error is the caller’s, and a name that failed is not used again', async (t) => {
  const names: unknown[] = [];
  const failures = ['26000', '57014'];
  const query = ({ name }: { name?: string }) => {
    names.push(name);
    const code = failures.shift();
    return code === undefined
      ? Promise.resolve({ rows: [{ one: 1 }] })
      : Promise.reject(Object.assign(new Error(), { code }));
  };
  const run = makeRunPrepared({ query } as unknown as Parameters<typeof makeRunPrepared>[0]);
  await t.rejects(run(ECHO, []), { code: '57014' });
  t.strictSame(await run(ECHO, []), [{ one: 1 }]);
  t.strictSame(names, [ECHO.name, undefined, undefined]);
});
