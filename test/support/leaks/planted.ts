import { test, type Test } from 'tap';
import type { AppOptions } from '../../../src/app.ts';
import { buildTestApp } from '../app.ts';
import { anAccount, signUp } from '../client.ts';
import { signUpOver } from '../over-http.ts';
import { testDatabase } from '../postgres.ts';
import { ready, startService } from '../service.ts';
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
  /** Without a socket. */
  async inject(t) {
    const target = await buildTestApp(t);
    await signUp(target, account);
    target.composition.app.logger.warn(account.password);
  },
  async span(t) {
    const url = await listening(t, (options) => {
      const request = options.tracer?.request({});
      request?.run(() => {
        options.tracer?.start('planted', { 'user.email': account.email }).end();
      });
      request?.end('GET', '/', 200);
      return options;
    });
    await signUpOver(url, account);
  },
  async metric(t) {
    const url = await listening(t, (options) => {
      options.observe.requestEnded('GET', account.email, 200, 0);
      return options;
    });
    await signUpOver(url, account);
  },
  /** Of another process. */
  async process(t) {
    const { url } = await testDatabase(t);
    const script = `setTimeout(() => console.error('planted ' + process.env.TEST_PLANTED), 100)`;
    const service = await startService(t, {
      DATABASE_URL: url,
      TEST_PLANTED: secret,
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(script)}`,
    });
    await ready(service);
    await signUpOver(service.url, account);
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
