import { test, type Test } from 'tap';
import { migrate } from '../../src/infra/postgres/migrate.ts';
import { latchkey } from '../support/latchkey.ts';
import { LAST_OF_FIRST, migrationsUntil } from '../support/migrations.ts';
import { testDatabase } from '../support/postgres.ts';
import { sql } from '../support/sql.ts';

const ISSUER = 'https://auth.example.com';

async function anInstallation(t: Test) {
  const { url } = await testDatabase(t);
  const accept = (env: Record<string, string>, ...args: string[]) =>
    latchkey(['settings', 'accept', ...args], { DATABASE_URL: url, ...env });
  const recorded = async () => {
    const rows = await sql<{ name: string; value: string }>(
      url,
      'SELECT name, value FROM installation ORDER BY name',
    );
    return rows.map(({ name, value }) => `${name} ${value}`);
  };
  const signed = (kid: string, ago: number) =>
    sql(
      url,
      `INSERT INTO signing_keys (kid, signed_at) VALUES ($1, now() - $2 * interval '1 second')
       ON CONFLICT (kid) DO UPDATE SET signed_at = excluded.signed_at`,
      [kid, ago],
    );
  return { accept, recorded, signed };
}

test('settings accept records new values, says what they cost, and refuses while a replica serves', async (t) => {
  const { accept, recorded, signed } = await anInstallation(t);
  t.match(await accept({ ISSUER }), {
    code: 0,
    stdout: /^ISSUER: https:\/\/auth\.example\.com is recorded$/m,
  });
  t.strictSame(await recorded(), ['AUDIENCE latchkey', `ISSUER ${ISSUER}`]);
  t.match(await accept({ ISSUER }), { code: 0, stdout: /^nothing to accept/ });

  await signed('secret', 60);
  const slash = { ISSUER: `${ISSUER}/` };
  const refused = await accept(slash);
  t.match(refused, {
    code: 1,
    stderr: /becomes .*\/\n.*signs everybody out.*\nA replica serves.*stop every replica, wait 70 s/,
  });
  t.match(refused.audit, [{ event: 'settings.accept', outcome: 'refused' }]);
  t.match(
    JSON.parse(
      (await accept(slash, '--json')).stderr.split('\n').find((line) => line.includes('"error"')) ?? '',
    ),
    {
      changes: [{ setting: 'ISSUER', from: ISSUER, to: `${ISSUER}/` }],
    },
  );
  t.match(await accept({ ISSUER }), { code: 0 }, 'nothing changes');
  t.strictSame(await recorded(), ['AUDIENCE latchkey', `ISSUER ${ISSUER}`]);

  await signed('ahead', -3600);
  await signed('secret', 71);
  const accepted = await accept({ ...slash, AUDIENCE: 'shop' }, '--json');
  t.equal(accepted.code, 0);
  t.strictSame(JSON.parse(accepted.stdout), {
    accepted: [
      { setting: 'ISSUER', from: ISSUER, to: `${ISSUER}/` },
      { setting: 'AUDIENCE', from: 'latchkey', to: 'shop' },
    ],
  });
  t.match(accepted.audit, [
    { event: 'settings.accept', details: { issuer: `${ISSUER}/`, audience: 'shop' } },
  ]);
  t.strictSame(await recorded(), ['AUDIENCE shop', `ISSUER ${ISSUER}/`]);
});

test('settings accept --retire takes a key that a replica has recorded, and repeats no other text', async (t) => {
  const { accept, recorded, signed } = await anInstallation(t);
  await signed('leaked-kid', 1);
  const retired = await accept({}, '--retire', 'leaked-kid');
  t.match(retired, { code: 0, audit: [{ subject: { kid: 'leaked-kid' } }] });
  t.match(await accept({}, '--retire', 'leaked-kid'), { code: 0 }, 'again');
  t.strictSame(await recorded(), ['retired:leaked-kid ']);
  const unknown = await accept({}, '--retire', 'a-secret-by-mistake');
  t.match(unknown, { code: 1, stderr: /no replica has recorded a key with this id/ });
  t.notMatch(JSON.stringify(unknown), 'a-secret-by-mistake');
});

test('settings accept wants a value of its own for ISSUER, and no other words', async (t) => {
  const { accept } = await anInstallation(t);
  t.match(await accept({}), { code: 1, stderr: /ISSUER is required/ });
  t.match(await accept({ ISSUER }, 'all'), { code: 2 });
  t.match(await latchkey(['settings']), { code: 2 });
});

test('a command for a schema that is older than the code says so', async (t) => {
  const { url } = await testDatabase(t, { migrated: false });
  await migrate(url, { folder: migrationsUntil(t, LAST_OF_FIRST) });
  const stderr = /^the database cannot be used: PostgreSQL 42P01: .*installation.*run `npm run migrate`$/m;
  t.match(await latchkey(['settings', 'accept'], { DATABASE_URL: url, ISSUER }), { code: 1, stderr });
});
