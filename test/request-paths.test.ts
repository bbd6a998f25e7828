import { existsSync, readFileSync } from 'node:fs';
import { test } from 'tap';
import { buildTestApp } from './support/app.ts';
import { logIn, refresh, signUp, verify, type Pair } from './support/client.ts';
import { executedFiles } from './support/executed-files.ts';
import { redisMissing, testRedis } from './support/redis.ts';

/** Every request passes these files, and none of them decides its result. */
const NOT_COUNTED =
  /^src\/(http\/plugins|infra\/metrics|infra\/tracing|infra\/redis\/connection|runtime|telemetry)\//;

/** The files in the numbered list after a sentence in ARCHITECTURE.md. */
function listed(request: string): string[] {
  const text = readFileSync('ARCHITECTURE.md', 'utf8').split(`A ${request} passes these files`)[1] ?? '';
  const list = /(?:^\d+\. .*\n(?: {3}.*\n)*)+/m.exec(text)?.[0] ?? '';
  return [...list.matchAll(/^\d+\. `([^`]+)`/gm)].map(([, file = '']) => file);
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
  for (const [name, send] of Object.entries(requests)) {
    // A timer may fire during one request, but not during three.
    const runs: string[][] = [];
    for (let i = 0; i < 3; i++) {
      const run = await executedFiles(async () => {
        t.equal((await send()).statusCode, 200, name);
      });
      runs.push(run);
    }
    const files = listed(name);
    for (const file of files) t.ok(existsSync(file), `${file} exists`);
    const expected = files.filter((file) => file.endsWith('.ts'));
    const always = runs.reduce((common, run) => common.filter((file) => run.includes(file)));
    const extra = always.filter((file) => !NOT_COUNTED.test(file) && !expected.includes(file));
    t.strictSame(extra, [], `a ${name} runs no other file`);
    t.strictSame(
      expected.filter((file) => !runs.flat().includes(file)),
      [],
      `a ${name} runs each of them`,
    );
    t.ok(files.length <= 14, `${name} passes ${files.length} files`);
  }
});
