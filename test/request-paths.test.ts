import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'tap';
import { buildTestApp } from './support/app.ts';
import { logIn, refresh, signUp, verify, type Pair } from './support/client.ts';
import { executedFiles } from './support/executed-files.ts';
import { redisMissing, testRedis } from './support/redis.ts';

/** The files in the numbered lists after a sentence in ARCHITECTURE.md, up to the next request or chapter. */
function listed(request: string): string[] {
  const [, after = ''] = readFileSync('ARCHITECTURE.md', 'utf8').split(`A ${request} passes these files`);
  const [lists = ''] = after.split(/^(?:A \w+ passes|## )/m);
  return [...lists.matchAll(/^\d+\. `([^`]+)`/gm)].map(([, file = '']) => file);
}

/** The files that each of several runs executes: a timer may fire during one of them, but not during all. */
async function alwaysExecuted(work: () => Promise<unknown>): Promise<string[]> {
  const runs: string[][] = [];
  for (let i = 0; i < 3; i++) runs.push(await executedFiles(work));
  return runs.reduce((common, run) => common.filter((file) => run.includes(file)));
}

test('ARCHITECTURE.md lists exactly the files that a request runs', { skip: redisMissing }, async (t) => {
  const { url, prefix } = testRedis(t);
  const app = await buildTestApp(t, { env: { REDIS_URL: url, REDIS_PREFIX: prefix } });
  const { username } = (await signUp(app)).user;
  const loggedIn = await logIn(app, username);
  let pair = (await refresh(app, loggedIn.refresh_token)).json<Pair>();
  // The first use confirms the pair.
  await verify(app, pair.access_token);
  const requests = {
    verify: () => verify(app, pair.access_token),
    refresh: async () => {
      const response = await refresh(app, pair.refresh_token);
      pair = response.json();
      return response;
    },
  };
  // On a busy machine, a request takes longer than the shortest timer. What that runs, runs without a request too.
  const timers = await alwaysExecuted(() => sleep(200));
  for (const [name, send] of Object.entries(requests)) {
    const executed = await alwaysExecuted(async () => {
      t.equal((await send()).statusCode, 200, name);
    });
    const files = listed(name);
    for (const file of files) t.ok(existsSync(file), `${file} exists`);
    // Lua is not seen.
    const expected = files.filter((file) => file.endsWith('.ts'));
    t.strictSame(
      executed.filter((file) => !timers.includes(file) && !expected.includes(file)),
      [],
      `a ${name} runs no other file`,
    );
    t.strictSame(
      expected.filter((file) => !executed.includes(file)),
      [],
      `a ${name} runs each of them`,
    );
  }
});
