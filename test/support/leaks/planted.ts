import { test } from 'tap';
import { buildTestApp } from '../app.ts';
import { anAccount } from '../client.ts';
import { signUpOver } from '../over-http.ts';
import '../watch-leaks.ts';

/** A test file whose instance logs a password, for leak-watch.test.ts: `node planted.js SECRET`. */
const [, , secret = ''] = process.argv;
const account = anAccount({ password: secret, email: `mail-${secret}-mail@example.com` });

test('log', async (t) => {
  const { app } = await buildTestApp(t, {
    override: (options) => {
      options.logger.info({ password: `"${account.password}"` }, 'planted');
      return options;
    },
  });
  await signUpOver(await app.listen({ port: 0 }), account);
});
