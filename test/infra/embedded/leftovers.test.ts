// suite: e2e
import { test } from 'tap';
import { ask, host, isAlive, onlyLinux, postmaster, start, urlOf } from '../../support/embedded.ts';
import { testFolder } from '../../support/folder.ts';

test(
  'the next start stops a server whose parent was killed, without data loss',
  { skip: onlyLinux },
  async (t) => {
    const dataDir = testFolder(t);
    const killed = await host(t, dataDir);
    await ask(urlOf(killed), `CREATE TABLE kept AS SELECT 'a word' AS word`);
    await killed.kill();
    const orphan = postmaster(dataDir);
    t.ok(isAlive(orphan), 'the server goes on without its parent');

    const next = await start(t, dataDir);
    t.notOk(isAlive(orphan));
    t.match(next.warnings, [/killed process/]);
    t.same(await ask(next.url, 'SELECT word FROM kept'), [{ word: 'a word' }]);
  },
);

test('a server that was killed together with its parent recovers', { skip: onlyLinux }, async (t) => {
  const dataDir = testFolder(t);
  const killed = await host(t, dataDir);
  await ask(urlOf(killed), `CREATE TABLE kept AS SELECT 'a word' AS word`);
  process.kill(postmaster(dataDir), 'SIGKILL');
  await killed.kill();
  const next = await start(t, dataDir);
  t.same(await ask(next.url, 'SELECT word FROM kept'), [{ word: 'a word' }]);
});
