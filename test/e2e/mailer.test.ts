import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { anAccount, bearer } from '../support/client.ts';
import { startDeployedNginx } from '../support/deployed-nginx.ts';
import { ROOT } from '../support/documents.ts';
import { testFolder } from '../support/folder.ts';
import { leakWatch } from '../support/leaks/leak-watch.ts';
import { letPass } from '../support/mails.ts';
import { logInOver, signUpOver } from '../support/over-http.ts';
import { testDatabase } from '../support/postgres.ts';
import { aRegisteredService } from '../support/registered-service.ts';
import { launchOf, readyService } from '../support/service.ts';
import { sql } from '../support/sql.ts';
import { toolsMissing } from '../support/tools.ts';
import { until } from '../support/until.ts';
import '../support/watch-leaks.ts';

const PAGE_URL = 'https://shop.example/account';
const PASSWORD = 'an analytical engine';

/** What a mail says. */
interface Received {
  to: string;
  page: string;
  token: string;
}

/** A mailbox in a folder, and the example mailer, whose command puts each mail into it. */
test(
  'the mailer of examples/mailer, with its users behind nginx',
  { skip: toolsMissing('bash', 'nginx') },
  async (t) => {
    const { url: DATABASE_URL } = await testDatabase(t);
    const env = { DATABASE_URL, TRUST_PROXY: 'loopback', EMAIL_VERIFICATION: 'true' };
    const service = await readyService(t, env);
    const { url } = await startDeployedNginx(t, 'nginx.conf', { 'http://latchkey:3000': service.url });
    // Users reach the service through it, so what they send shows there.
    leakWatch.watch('nginx', true).listensOn(url);
    const { serviceId, secret } = await aRegisteredService(DATABASE_URL, 'mailer', ['mails']);
    const mailbox = testFolder(t);
    const put = 'f=$(mktemp -p "$MAILBOX") && cat > "$f" && mv "$f" "$f.eml"';

    function startMailer(command = put) {
      const child = launchOf(join(ROOT, 'examples/mailer/mailer.mjs'))({
        LATCHKEY_URL: service.url,
        LATCHKEY_CLIENT_ID: serviceId,
        LATCHKEY_CLIENT_SECRET: secret,
        PAGE_URL,
        MAIL_COMMAND: command,
        MAILBOX: mailbox,
      });
      let errors = '';
      child.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text));
      const ended = new Promise((resolve) => child.once('exit', resolve));
      const stop = async (signal: NodeJS.Signals = 'SIGTERM') => {
        child.kill(signal);
        await ended;
      };
      t.teardown(() => stop('SIGKILL'));
      return { stop, log: () => errors };
    }

    const seen = new Set<string>();
    /** The next mail to an address. */
    async function nextTo(to: string): Promise<Received> {
      for (;;) {
        for (const name of readdirSync(mailbox).filter((each) => each.endsWith('.eml') && !seen.has(each))) {
          const text = readFileSync(join(mailbox, name), 'utf8');
          if (!text.includes(`\nTo: <${to}>\n`)) continue;
          seen.add(name);
          const [, page = '', token = ''] =
            /^https:\/\/shop\.example\/account(\/\w+)#(\S+)$/m.exec(text) ?? [];
          return { to, page, token };
        }
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }

    const send = async (method: string, path: string, body: object | null, token?: string) =>
      fetch(url + path, {
        method,
        headers: { ...(token && bearer(token)), ...(body && { 'content-type': 'application/json' }) },
        ...(body && { body: JSON.stringify(body) }),
      });
    const prove = async (token: string) =>
      (await send('POST', '/api/auth/email-verification', { verification_token: token })).status;
    const reset = async (token: string) =>
      (await send('POST', '/api/auth/password-reset', { reset_token: token, password: PASSWORD })).status;
    const forget = async (username: string) => {
      t.equal((await send('POST', '/api/auth/password-reset-request', { username })).status, 200);
      const waits = 'SELECT 1 FROM wanted_mails WHERE kind = $1 AND settled_at IS NULL';
      await until(async () => (await sql(DATABASE_URL, waits, ['password_reset'])).length > 0);
    };

    await t.test('a signup, its proof, and a changed address', async (t) => {
      const mailer = startMailer();
      const account = anAccount();
      const { access_token: token } = await signUpOver(url, account);
      const addressOf = async () => (await send('GET', '/api/user/email', null, token)).json();
      const first = await nextTo(account.email);
      t.match(first, { page: '/verify', token: /^lkv_/ });
      t.equal(await prove(first.token), 200);
      t.strictSame(await addressOf(), { email: account.email, verified: true });
      const email = `new.${account.email}`;
      const change = { email, current_password: account.password };
      t.equal((await send('PATCH', '/api/user', change, token)).status, 200);
      t.strictSame(await addressOf(), { email, verified: false });
      const second = await nextTo(email);
      t.equal(await prove(first.token), 401);
      t.equal(await prove(second.token), 200);
      t.strictSame(await addressOf(), { email, verified: true });
      await until(() => mailer.log().split('is handed over').length > 2);
      for (const secret of [email, account.email, first.token, second.token])
        t.notOk(mailer.log().includes(secret));
      await mailer.stop();
    });

    await t.test('a mailer that was killed between taking and settling', async (t) => {
      const account = anAccount();
      await signUpOver(url, account);
      await letPass(DATABASE_URL, 2 * 3600);
      const slow = startMailer(`${put}; while [ ! -e "$MAILBOX/go" ]; do sleep 0.1; done`);
      await forget(account.username);
      const lost = await nextTo(account.email);
      await slow.stop('SIGKILL');
      writeFileSync(join(mailbox, 'go'), '');
      const next = startMailer();
      await letPass(DATABASE_URL, 60);
      const second = await nextTo(account.email);
      t.match(second, { page: '/reset', token: /^lkr_/ });
      t.equal(await reset(lost.token), 401, 'only the newest mail works');
      t.equal(await reset(second.token), 200);
      t.equal((await logInOver(url, account.email, PASSWORD)).status, 200);
      await until(() => next.log().includes('is handed over'));
      await next.stop();
    });

    await t.test('a mailer whose command fails tries again', async (t) => {
      const account = anAccount();
      await signUpOver(url, account);
      await letPass(DATABASE_URL, 2 * 3600);
      const failing = startMailer('cat > /dev/null; exit 75');
      await forget(account.email);
      await until(() => failing.log().includes('MAIL_COMMAND ended with 75'));
      await failing.stop();
      await letPass(DATABASE_URL, 60);
      const mailer = startMailer();
      t.equal(await reset((await nextTo(account.email)).token), 200);
      await mailer.stop();
    });

    await t.test('a mailer that was away for 50 minutes', async (t) => {
      const account = anAccount();
      await signUpOver(url, account);
      await letPass(DATABASE_URL, 2 * 3600);
      await forget(account.username);
      await letPass(DATABASE_URL, 50 * 60);
      const mailer = startMailer();
      t.equal(await reset((await nextTo(account.email)).token), 200);
      await mailer.stop();
    });

    await t.test('no proxy opens the mails', async (t) => {
      const { status } = await send('POST', '/api/users/mails', {});
      t.not(status, 200);
    });
  },
);
