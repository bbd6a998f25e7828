import { test, type Test } from 'tap';
import type { AppOptions } from '../../../src/app.ts';
import { buildTestApp } from '../app.ts';
import { anAccount } from '../client.ts';
import { signUpOver } from '../over-http.ts';
import '../watch-leaks.ts';

/** A test file with leaks, for leak-watch.test.ts: `node planted.js SECRET PLANT…`. */
const [, , secret = '', ...plants] = process.argv;
const account = anAccount({ password: secret, email: `mail-${secret}-mail@example.com` });

const PLANTS: Record<string, (t: Test) => Promise<void>> = {
  async none(t) {
    await signUpOver(await listening(t), account);
  },
  async log(t) {
    const url = await listening(t, (options) => {
      options.logger.info({ password: `"${account.password}"` }, 'planted');
      return options;
    });
    await signUpOver(url, account);
  },
  /** An instance without requests. */
  async silence(t) {
    await listening(t);
  },
  /** No instance. */
  async nothing(t) {
    await t.resolves(Promise.resolve());
  },
};

async function listening(t: Test, override: (options: AppOptions) => AppOptions = (options) => options) {
  const target = await buildTestApp(t, { override });
  return target.app.listen({ port: 0 });
}

for (const plant of plants) test(plant, async (t) => PLANTS[plant]?.(t));
