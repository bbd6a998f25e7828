import { join } from 'node:path';
import { test } from 'tap';
import { answers } from '../support/postgres.ts';

interface TestDatabase {
  openTestDatabase: (env: {
    TEST_DATABASE_URL?: string;
  }) => Promise<{ url: string | undefined; close: () => Promise<void> }>;
}

const path = join(new URL('../../../', import.meta.url).pathname, 'scripts/test-database.mjs');
const { openTestDatabase } = (await import(path)) as TestDatabase;

test('starts one server for all files if none answers, else uses the running one', async (t) => {
  const { url = '', close } = await openTestDatabase({
    TEST_DATABASE_URL: 'postgres://postgres@127.0.0.1:1/postgres',
  });
  t.ok(await answers(url), 'tests can create databases');

  const found = await openTestDatabase({ TEST_DATABASE_URL: url });
  t.equal(found.url, url);
  await found.close();
  t.ok(await answers(url), 'a server found running stays');

  await close();
  t.notOk(await answers(url), 'a started server ends');
});
