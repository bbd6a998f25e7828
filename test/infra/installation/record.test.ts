import { test } from 'tap';
import { makeInstallationRecord } from '../../../src/infra/installation/record.ts';
import { openPostgres } from '../../support/open-postgres.ts';
import { testDatabase } from '../../support/postgres.ts';
import { sql } from '../../support/sql.ts';

test('a value on record gives way once no replica has held it for 70 s, or if its time is ahead', async (t) => {
  const { url } = await testDatabase(t);
  const record = makeInstallationRecord(openPostgres(t, { url }).prisma);
  /** What is on record once a replica with `own` has held it, and whether its time has changed. */
  const heldAt = async (own: string, age: number) => {
    await sql(
      url,
      `INSERT INTO installation VALUES ('LLT_MAX_AGE', '0', now() - $1 * interval '1 second')
       ON CONFLICT (name) DO UPDATE SET value = excluded.value, at = excluded.at`,
      [age],
    );
    await record.hold({ LLT_MAX_AGE: own });
    const fact = (await record.read()).get('LLT_MAX_AGE');
    return `${fact?.value ?? 'none'}${Math.abs(fact?.age ?? 0) < 30_000 ? ', now' : ''}`;
  };
  t.equal(await heldAt('0', 50), '0', 'another replica has held it');
  t.equal(await heldAt('0', 65), '0, now');
  t.equal(await heldAt('9', 65), '0', 'a replica with this value may serve');
  t.equal(await heldAt('9', 75), '9, now');
  t.equal(await heldAt('9', -3600), '9, now', 'a clock that was set back');
});
