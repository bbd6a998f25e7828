import { execFile } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { test, type Test } from 'tap';
import { MAIL_KINDS, NOTICE_EVENTS } from '../../src/domain/mail-kinds.ts';
import { anAccount, bearer } from '../support/client.ts';
import { startDeployedNginx } from '../support/deployed-nginx.ts';
import { ROOT } from '../support/documents.ts';
import { bareEnvironment } from '../support/environment.ts';
import { testFolder } from '../support/folder.ts';
import { leakWatch } from '../support/leaks/leak-watch.ts';
import { listen } from '../support/listen.ts';
import { letPass } from '../support/mails.ts';
import { logInOver, signUpOver } from '../support/over-http.ts';
import { testDatabase } from '../support/postgres.ts';
import { python } from '../support/python.ts';
import { aRegisteredService, basic } from '../support/registered-service.ts';
import { launchOf, readyService } from '../support/service.ts';
import { sql } from '../support/sql.ts';
import { toolsMissing } from '../support/tools.ts';
import { until } from '../support/until.ts';
import '../support/watch-leaks.ts';

const MAILER = join(ROOT, 'examples/mailer/mailer.mjs');
const PAGE_URL = 'https://shop.example/account';
const MAIL_FROM = 'accounts@shop.example';
const PASSWORD = 'an analytical engine';
/** Puts each mail into the folder of MAILBOX. */
const PUT = 'f=$(mktemp -p "$MAILBOX") && cat > "$f" && mv "$f" "$f.eml"';

/** What a mail says. */
interface Received {
  page: string;
  token: string;
}

/** A message as Python reads it. */
interface Message {
  to: string;
  subject: string;
  id: string;
  language: string;
  body: string;
  defects: string[];
}

/** Any defect of the structure is an exception. */
const READ = `
import email, email.policy, json, sys
strict = email.policy.SMTPUTF8.clone(raise_on_defect=True)
messages = []
for path in sys.argv[1:]:
    data = open(path, 'rb').read()
    assert b'\\n' not in data.replace(b'\\r\\n', b'') and b'\\r' not in data.replace(b'\\r\\n', b''), path
    assert max(map(len, data.split(b'\\r\\n'))) <= 998, path
    head = email.message_from_string(data.decode(), policy=strict)
    messages.append({
        'to': head['to'].addresses[0].addr_spec,
        'subject': str(head['subject']),
        'id': str(head['message-id']),
        'language': str(head['content-language']),
        'body': email.message_from_bytes(data, policy=strict).get_content(),
        'defects': [type(each).__name__ for value in head.values() for each in value.defects],
    })
print(json.dumps(messages))
`;

/** The mails in a folder, read by a strict parser that is not ours. */
function messagesIn(mailbox: string): Message[] {
  const { stdout, stderr, status } = python([
    '-c',
    READ,
    ...mailsIn(mailbox).map((name) => join(mailbox, name)),
  ]);
  if (status !== 0) throw new Error(stderr);
  return JSON.parse(stdout) as Message[];
}

function mailsIn(mailbox: string): string[] {
  return readdirSync(mailbox).filter((name) => name.endsWith('.eml'));
}

/** Starts the example, with a mailbox. */
function startMailer(t: Test, env: Record<string, string>) {
  const child = launchOf(MAILER)({ PAGE_URL, MAIL_FROM, ...env });
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

/** A mailbox in a folder, and the example mailer, whose command puts each mail into it. */
test(
  'the mailer of examples/mailer, with its users behind nginx',
  { skip: toolsMissing('bash', 'nginx', 'python3') },
  async (t) => {
    const { url: DATABASE_URL } = await testDatabase(t);
    const env = { DATABASE_URL, TRUST_PROXY: 'loopback', EMAIL_VERIFICATION: 'true', NOTICES: 'true' };
    const service = await readyService(t, env);
    const { url } = await startDeployedNginx(t, 'nginx.conf', { 'http://latchkey:3000': service.url });
    // Users reach the service through it, so what they send shows there.
    leakWatch.watch('nginx', true).listensOn(url);
    const { serviceId, secret } = await aRegisteredService(DATABASE_URL, 'mailer', ['mails']);
    const office = await aRegisteredService(DATABASE_URL, 'office', ['users.write']);
    const mailbox = testFolder(t);
    // With what an editor leaves around a value.
    const settings = {
      LATCHKEY_URL: ` ${service.url}\n`,
      LATCHKEY_CLIENT_ID: serviceId,
      LATCHKEY_CLIENT_SECRET: `\ufeff${secret}\n`,
      MAILBOX: mailbox,
    };
    const start = (command = PUT) => startMailer(t, { ...settings, MAIL_COMMAND: command });

    const seen = new Set<string>();
    /** The next mail to an address. */
    async function nextTo(to: string, subject = ''): Promise<Received> {
      let text = '';
      await until(() => {
        const isIt = (name: string) => {
          text = readFileSync(join(mailbox, name), 'utf8');
          return text.includes(`\nTo: <${to}>\r\nSubject: ${subject}`);
        };
        const name = mailsIn(mailbox).find((each) => !seen.has(each) && isIt(each));
        if (name !== undefined) seen.add(name);
        return name !== undefined;
      });
      const [, page = '', token = ''] = /^https:\/\/shop\.example\/account(\/\w+)#(\S+)$/m.exec(text) ?? [];
      return { page, token };
    }

    const send = async (
      method: string,
      path: string,
      body: object | null,
      headers: Record<string, string> = {},
      to = url,
    ) =>
      fetch(to + path, {
        method,
        headers: { ...headers, ...(body && { 'content-type': 'application/json' }) },
        ...(body && { body: JSON.stringify(body) }),
      });
    const byOffice = (method: string, path: string, body: object | null) =>
      send(method, path, body, basic(office), service.url);
    const prove = async (token: string) =>
      (await send('POST', '/api/auth/email-verification', { verification_token: token })).status;
    const proveNew = async (token: string, access: string) =>
      (await send('POST', '/api/user/email', { verification_token: token }, bearer(access))).status;
    const reset = async (token: string) =>
      (await send('POST', '/api/auth/password-reset', { reset_token: token, password: PASSWORD })).status;
    const forget = async (username: string) => {
      // A mailer may have taken the mail and settled it by the time that we look.
      const mails = () =>
        sql(
          DATABASE_URL,
          `SELECT 1 FROM wanted_mails JOIN users ON users.id = user_id
          WHERE kind = 'password_reset' AND username = $1`,
          [username],
        );
      const before = (await mails()).length;
      t.equal((await send('POST', '/api/auth/password-reset-request', { username })).status, 200);
      await until(async () => (await mails()).length > before);
    };
    const addressOf = async (access: string) =>
      (await send('GET', '/api/user/email', null, bearer(access))).json();

    await t.test('a signup, its proof, and a changed address', async (t) => {
      const mailer = start();
      const account = anAccount();
      const { access_token: access } = await signUpOver(url, account);
      const first = await nextTo(account.email);
      t.match(first, { page: '/verify', token: /^lkv_/ });
      t.equal(await prove(first.token), 200);
      t.equal(await prove(first.token), 200, 'also after a lost answer');
      const before = { email: account.email, verified: true, pending: null, deliverable: true };
      t.strictSame(await addressOf(access), before);
      const email = `new.${account.email}`;
      const change = { email, current_password: account.password };
      t.equal((await send('PATCH', '/api/user', change, bearer(access))).status, 200);
      t.strictSame(await addressOf(access), { ...before, pending: email });
      await nextTo(account.email, 'Your e-mail address is about to change');
      const second = await nextTo(email);
      t.match(second, { page: '/address', token: /^lk/ });
      t.equal(await prove(second.token), 401, 'a stranger at a mistyped address proves nothing');
      t.equal(await proveNew(first.token, access), 401);
      t.equal(await proveNew(second.token, access), 200);
      t.strictSame(await addressOf(access), { ...before, email });
      await nextTo(account.email, 'Your e-mail address has changed');
      await until(() => mailer.log().split('is handed over').length > 4);
      for (const secret of [email, account.email, first.token, second.token])
        t.notOk(mailer.log().includes(secret));
      await mailer.stop();
    });

    await t.test('an invitation opens its account, in the language of the account', async (t) => {
      const mailer = start();
      const { username, name, email } = anAccount();
      const created = await byOffice('POST', '/api/users', {
        username,
        name,
        email,
        locale: 'de-CH',
        invite: true,
      });
      t.equal(created.status, 200);
      const mail = await nextTo(email, 'Ihr neues Konto');
      t.match(mail, { page: '/reset', token: /^lkr_/ });
      t.equal(await reset(mail.token), 200);
      const { access_token: access } = (await (await logInOver(url, email, PASSWORD)).json()) as {
        access_token: string;
      };
      t.match(await addressOf(access), { verified: true }, 'the mail has arrived');
      await mailer.stop();
    });

    await t.test('a mailer that was killed between taking and settling', async (t) => {
      const account = anAccount();
      await signUpOver(url, account);
      await letPass(DATABASE_URL, 25 * 3600);
      const slow = start(`${PUT}; while [ ! -e "$MAILBOX/go" ]; do sleep 0.1; done`);
      await forget(account.username);
      const lost = await nextTo(account.email);
      await slow.stop('SIGKILL');
      writeFileSync(join(mailbox, 'go'), '');
      const next = start();
      await letPass(DATABASE_URL, 60);
      const second = await nextTo(account.email);
      t.match(second, { page: '/reset', token: /^lkr_/ });
      t.not(second.token, lost.token);
      t.equal(await reset(lost.token), 200, 'whichever its user opens');
      t.equal(await reset(second.token), 401, 'and then none');
      t.equal((await logInOver(url, account.email, PASSWORD)).status, 200);
      await until(() => next.log().includes('is handed over'));
      await next.stop();
    });

    await t.test('a mail is tried six times, later and later', async (t) => {
      await letPass(DATABASE_URL, 25 * 3600);
      const failing = start('cat > /dev/null; exit 75');
      const triesOf = (kind: string) =>
        failing.log().split(`(${kind}): MAIL_COMMAND ended with 75`).length - 1;
      const { username, name, email } = anAccount();
      const created = await byOffice('POST', '/api/users', { username, name, email, invite: true });
      const { id } = (await created.json()) as { id: number };
      for (const [i, minutes] of [1, 2, 4, 8, 16, 32].entries()) {
        await until(() => triesOf('invitation') === i + 1);
        await letPass(DATABASE_URL, minutes * 60);
      }
      // The mailer takes its mail together with all others.
      await signUpOver(url);
      await until(() => triesOf('email_verification') === 1);
      await failing.stop();
      t.equal(triesOf('invitation'), 6);
      const mailer = start();
      t.equal((await byOffice('POST', `/api/users/${id}/invitation`, null)).status, 200);
      t.equal(await reset((await nextTo(email)).token), 200, 'it can be asked for again');
      await mailer.stop();
    });

    await t.test('a mailer that was away for 50 minutes', async (t) => {
      const account = anAccount();
      await signUpOver(url, account);
      await letPass(DATABASE_URL, 25 * 3600);
      await forget(account.username);
      await letPass(DATABASE_URL, 50 * 60);
      const mailer = start();
      t.equal(await reset((await nextTo(account.email)).token), 200);
      await mailer.stop();
    });

    await t.test('an address for which there is no such user gets no more mails', async (t) => {
      await letPass(DATABASE_URL, 25 * 3600);
      const account = anAccount();
      const { access_token: access } = await signUpOver(url, account);
      const refusing = start('cat > /dev/null; exit 67');
      await until(() => refusing.log().includes('is reported as undeliverable'));
      t.notOk(refusing.log().includes(account.email));
      await refusing.stop();
      t.match(await addressOf(access), { verified: false, deliverable: false });
      const mailer = start();
      // Another account's mail shows that there is none.
      const other = anAccount();
      await signUpOver(url, other);
      await send('POST', '/api/auth/password-reset-request', { username: account.username });
      await forget(other.username);
      const words = 'Set a new password';
      await nextTo(other.email, words);
      t.notOk(messagesIn(mailbox).some((each) => each.to === account.email));
      // Its owner has mended the mailbox.
      t.equal((await send('POST', '/api/user/email-verification', null, bearer(access))).status, 200);
      t.equal(await prove((await nextTo(account.email)).token), 200);
      t.match(await addressOf(access), { verified: true, deliverable: true });
      await forget(account.username);
      await nextTo(account.email, words);
      await mailer.stop();
    });

    await t.test('a mail server that cannot be found says nothing of the address', async (t) => {
      await letPass(DATABASE_URL, 25 * 3600);
      const account = anAccount();
      const { access_token: access } = await signUpOver(url, account);
      // As msmtp does it.
      const lost = start('cat > /dev/null; exit 68');
      await until(() => lost.log().includes('MAIL_COMMAND ended with 68'));
      await lost.stop();
      t.match(await addressOf(access), { deliverable: true });
      await letPass(DATABASE_URL, 60);
      const mailer = start();
      t.equal(await prove((await nextTo(account.email)).token), 200);
      await mailer.stop();
    });

    await t.test('a bounce is reported by a command', async (t) => {
      const mailer = start();
      const account = anAccount();
      const { access_token: access } = await signUpOver(url, account);
      await nextTo(account.email);
      const file = join(testFolder(t), 'secret');
      writeFileSync(file, `\ufeff${secret}\r\n`);
      const report = (address: string) =>
        promisify(execFile)(process.execPath, [MAILER, '--undeliverable', address], {
          env: bareEnvironment({
            ...settings,
            LATCHKEY_CLIENT_SECRET: '\n',
            LATCHKEY_CLIENT_SECRET_FILE: ` ${file}\n`,
          }),
        });
      const mistyped = `mistyped.${account.email}`;
      const change = { email: mistyped, current_password: account.password };
      await send('PATCH', '/api/user', change, bearer(access));
      await nextTo(mistyped);
      await report(mistyped.toUpperCase());
      t.match(await addressOf(access), { pending: null, deliverable: true }, 'of a pending address');
      await report(account.email);
      t.match(await addressOf(access), { email: account.email, deliverable: false });
      await report('nobody@example.com');
      await t.rejects(
        promisify(execFile)(process.execPath, [MAILER, '--undeliverable', account.email], {
          env: bareEnvironment({ ...settings, LATCHKEY_CLIENT_SECRET: 'lks_wrong' }),
        }),
        /401/,
      );
      await mailer.stop();
    });

    await t.test('an address of 1.0.0 that no header can hold', async (t) => {
      await letPass(DATABASE_URL, 25 * 3600);
      const account = anAccount();
      const { access_token: access } = await signUpOver(url, account);
      const email = `x>,<${account.email}`;
      await sql(DATABASE_URL, 'UPDATE users SET email = $1, email_given = NULL WHERE username = $2', [
        email,
        account.username,
      ]);
      const mailer = start();
      await forget(account.username);
      await until(() => mailer.log().includes('is reported as undeliverable'));
      t.match(await addressOf(access), { email, deliverable: false });
      await mailer.stop();
    });

    await t.test('Python finds no defect in any of these mails', (t) => {
      const messages = messagesIn(mailbox);
      t.ok(messages.length > 10);
      t.strictSame(
        messages.flatMap(({ defects }) => defects),
        [],
      );
      t.equal(new Set(messages.map(({ id }) => id)).size, messages.length);
      t.end();
    });

    await t.test('no proxy opens the mails', async (t) => {
      for (const path of ['', '/undeliverable'])
        t.not((await send('POST', `/api/users/mails${path}`, {})).status, 200);
    });
  },
);

/** A Latchkey that has these mails, to show every text and address. */
test('the messages of examples/mailer', { skip: toolsMissing('bash', 'python3') }, async (t) => {
  const [en, de] = [null, 'de-CH-x-old'];
  const locales = [en, de, 'fr', 'DE', 'de-a-value', 'en-GB', 'x-de'];
  const common = { verified: true, user: { id: 1, username: 'ada', name: 'Ada' } };
  const [EXPIRES, AT] = ['2026-11-29T13:05:00.000Z', '2026-03-01T09:08:07.000Z'];
  const ofKind = (kind: string, email: string, locale: string | null) => ({
    ...common,
    ...(kind === 'notice' ? { at: AT, event: 'new_device' } : { token: 'lkr_x-Y_z', expires_at: EXPIRES }),
    kind,
    email,
    locale,
  });
  /** With the address as Python reads it. */
  const ADDRESSES = [
    ['ada@example.com', 'ada@example.com'],
    ["Ada.O'Neil+x=1/{2}@Example.com", "Ada.O'Neil+x=1/{2}@Example.com"],
    ['ada@bücher.example', 'ada@xn--bcher-kva.example'],
    ['ада@почта.example', 'ада@xn--80a1acny.example'],
    ['ada@[192.0.2.1]', 'ada@[192.0.2.1]'],
    [`${'a'.repeat(64)}@${'b'.repeat(60)}.example`, `${'a'.repeat(64)}@${'b'.repeat(60)}.example`],
  ] as const;
  const NO_ADDRESSES = [
    'a b@example.com',
    'a"b@example.com',
    '.ada@example.com',
    'a..b@example.com',
    'ada@example..com',
    'x@example.com>,<y@example.com',
    'ada@example.com\r\nBcc: eve@example.com',
    'ada@x\u0000y.example',
    '@example.com',
  ];
  const mails = [
    ...MAIL_KINDS.flatMap((kind) => locales.map((locale) => ofKind(kind, 'ada@example.com', locale))),
    ...[...NOTICE_EVENTS, 'of_a_later_release'].flatMap((event) =>
      [en, de].map((locale) => ({ ...ofKind('notice', 'ada@example.com', locale), event })),
    ),
    ...ADDRESSES.map(([email]) => ofKind('password_reset', email, en)),
    ...NO_ADDRESSES.map((email) => ofKind('password_reset', email, en)),
  ].map((mail, i) => ({ id: i + 1, ...mail }));

  const waiting = [...mails];
  const asked: unknown[] = [];
  const settled: number[] = [];
  const reported: string[] = [];
  const server = createServer((request, response) => {
    const { method, url = '' } = request;
    const answer = (body: object) =>
      response.setHeader('content-type', 'application/json').end(JSON.stringify(body));
    if (method === 'DELETE') {
      settled.push(Number(url.split('/').at(-1)));
      answer({ msg: 'settled' });
    } else
      void json(request).then((body) => {
        if (url.endsWith('/undeliverable')) {
          reported.push((body as { email: string }).email);
          answer({ msg: 'noted' });
        } else {
          asked.push(body);
          answer({ mails: waiting.splice(0, (body as { limit: number }).limit) });
        }
      });
  });
  const LATCHKEY_URL = await listen(t, server);
  const mailbox = testFolder(t);
  const mailer = startMailer(t, {
    LATCHKEY_URL,
    LATCHKEY_CLIENT_ID: 'lkc_x',
    LATCHKEY_CLIENT_SECRET: 'lks_x',
    MAILBOX: mailbox,
    MAIL_COMMAND: PUT,
  });
  await until(() => settled.length + reported.length === mails.length);
  await mailer.stop();
  t.strictSame(asked[0], {
    limit: 10,
    kinds: ['password_reset', 'invitation', 'email_verification', 'email_change', 'notice'],
  });
  t.strictSame(
    [...(asked[0] as { kinds: string[] }).kinds].sort(),
    [...MAIL_KINDS].sort(),
    'all that there are',
  );
  t.strictSame(reported.sort(), [...NO_ADDRESSES].sort());
  for (const email of [...reported, 'ada@example.com', 'lkr_']) t.notOk(mailer.log().includes(email));

  const messages = new Map(
    messagesIn(mailbox).map((message) => {
      const [, id, domain] = /^<(\d+)\.\d+@(.+)>$/.exec(message.id) ?? [];
      t.equal(domain, 'shop.example');
      return [Number(id), message];
    }),
  );
  t.equal(messages.size, mails.length - NO_ADDRESSES.length);
  const subjects = new Map<string, Set<string>>([
    ['en', new Set()],
    ['de', new Set()],
  ]);
  for (const [id, { subject, language, body, to, defects }] of messages) {
    const mail = mails[id - 1];
    if (!mail) throw new Error(`no mail ${id}`);
    // Python calls every other script a defect, also with SMTPUTF8, for which RFC 6531 has it.
    t.strictSame(
      defects.filter((each) => each !== 'NonASCIILocalPartDefect' || /^[ -~]*$/.test(to)),
      [],
    );
    const expected = ADDRESSES.find(([email]) => email === mail.email)?.[1];
    t.equal(to, expected);
    t.equal(language, /^de/i.test(mail.locale ?? '') ? 'de' : 'en', mail.locale ?? 'none');
    subjects.get(language)?.add(subject);
    t.ok(
      body.split(/\r?\n/).every((line) => line.length < 76 || line.startsWith('https:')),
      'no long lines',
    );
    if (mail.kind === 'notice') t.notMatch(body, /https:|lkr_|undefined/);
    else {
      t.match(body, /^https:\/\/shop\.example\/account\/(reset|verify|address)#lkr_x-Y_z\r?$/m);
      t.match(body, /^lkr_x-Y_z\r?$/m, 'a line to paste');
    }
    t.match(body, mail.kind === 'notice' ? /2026\s+(\w+\s+)?09:08\s+UTC/ : /2026\s+(\w+\s+)?13:05\s+UTC/);
    t.notMatch(body, /\bAda\b/i, 'nothing that users chose');
  }
  const count = MAIL_KINDS.length - 1 + NOTICE_EVENTS.length + 1;
  for (const [language, texts] of subjects)
    t.equal(texts.size, count, `${language}: each with its own subject`);
  const both = [...(subjects.get('en') ?? [])].filter((text) => subjects.get('de')?.has(text));
  t.strictSame(both, []);
});

test('a mailer with a sender that no header can hold does not start', async (t) => {
  const env = bareEnvironment({ MAIL_FROM: 'Shop <a@shop.example>' });
  await t.rejects(promisify(execFile)(process.execPath, [MAILER], { env, timeout: 10_000 }), /MAIL_FROM/);
});
