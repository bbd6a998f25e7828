// Sends the mails that Latchkey's accounts want: takes them every 2 s, hands each to a command and settles it. Run it
// twice if you like, because no two mailers get one mail at the same time. See README.md.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';

const { env } = process;
const { LATCHKEY_URL = 'http://localhost:3000', PAGE_URL = 'http://localhost:5000' } = env;
const { LATCHKEY_CLIENT_ID: id = '', MAIL_FROM = 'no-reply@localhost', MAIL_COMMAND } = env;
const secret = env.LATCHKEY_CLIENT_SECRET_FILE
  ? readFileSync(env.LATCHKEY_CLIENT_SECRET_FILE, 'utf8').trim()
  : (env.LATCHKEY_CLIENT_SECRET ?? '');
const PAUSE = 2000; // milliseconds between two requests
const PATIENCE = 35_000; // milliseconds for a command: after 60 s another mailer may take the mail
const AT_ONCE = 10; // commands

const TEXTS = {
  password_reset: {
    subject: 'Set a new password',
    path: '/reset',
    text: 'somebody, probably you, wants a new password for your account. To set it, open this page:',
  },
  email_verification: {
    subject: 'Confirm your e-mail address',
    path: '/verify',
    text: 'to confirm that this address is yours, open this page and press the button:',
  },
};

/** Latchkey 1.0.0 took other texts for addresses, and a mail's header would read some of them as several. */
const PLAIN = /^[^\s<>()[\]\\,;:"@]+@[^\s<>()[\]\\,;:"@]+$/;

/** An RFC 5322 message. */
function messageOf({ kind, email, token, expires_at }) {
  const { subject, path, text } = TEXTS[kind];
  // Behind the # the token reaches no server and no log. The page posts it when its user presses a button: mail scanners
  // open every link, and a page that posted it by itself would let them use it up.
  const link = `${PAGE_URL}${path}#${token}`;
  return [
    `From: <${MAIL_FROM}>`,
    `To: <${email}>`,
    `Subject: ${subject}`,
    `Date: ${new Date().toUTCString().replace('GMT', '+0000')}`,
    'MIME-Version: 1.0',
    'Content-Type: text/plain; charset=utf-8',
    'Content-Transfer-Encoding: 8bit',
    'Auto-Submitted: auto-generated',
    '',
    // Not by name: a stranger may sign up with another's address, and would choose what the mail says.
    'Hello,',
    '',
    text,
    '',
    link,
    '',
    `It works once, until ${new Date(expires_at).toUTCString()}. If this was not you, ignore this mail.`,
    '',
  ].join('\n');
}

/** Rejects unless a command takes the message and ends with 0. */
async function handOver(message) {
  if (!MAIL_COMMAND) {
    process.stdout.write(`${message}\n`);
    return;
  }
  // The operator's own command line. What users chose is only in its standard input.
  const command = spawn(MAIL_COMMAND, {
    shell: true,
    stdio: ['pipe', 'inherit', 'inherit'],
    timeout: PATIENCE,
  });
  const ended = new Promise((resolve, reject) => {
    command.on('error', reject);
    command.on('exit', (code, signal) => {
      if (code === 0) resolve();
      else reject(new Error(`MAIL_COMMAND ended with ${code ?? signal}`));
    });
  });
  // A command that ends early breaks the pipe, and its code says more.
  command.stdin.on('error', () => undefined).end(message);
  await ended;
}

async function ask(method, path, body) {
  // RFC 6749, section 2.3.1: each is form-encoded before they are joined.
  const credentials = Buffer.from(`${encodeURIComponent(id)}:${encodeURIComponent(secret)}`).toString(
    'base64',
  );
  const response = await fetch(`${LATCHKEY_URL}${path}`, {
    method,
    headers: { authorization: `Basic ${credentials}`, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
    redirect: 'error',
    signal: AbortSignal.timeout(10_000),
  });
  const answer = await response.json();
  if (response.status !== 200) throw new Error(`${response.status} ${answer.code}: ${answer.detail}`);
  return answer;
}

/** A mail that fails is not settled, so a mailer takes it again after 60 s. */
async function send(mail) {
  try {
    if (!PLAIN.test(mail.email)) throw new Error('no mail can be sent to its address');
    await handOver(messageOf(mail));
    await ask('DELETE', `/api/users/mails/${mail.id}`);
    log(`mail ${mail.id} (${mail.kind}) is handed over`);
  } catch (error) {
    log(`mail ${mail.id} (${mail.kind}): ${error.message}`);
  }
}

/** Without addresses and tokens, and on standard error: standard output may be the mail. */
function log(line) {
  process.stderr.write(`${line}\n`);
}

let isStopping = false;
for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => (isStopping = true));

let trouble = '';
while (!isStopping) {
  try {
    const { mails } = await ask('POST', '/api/users/mails', { limit: AT_ONCE });
    if (trouble) log('Latchkey answers again');
    trouble = '';
    await Promise.all(mails.map(send));
    if (mails.length === AT_ONCE) continue;
  } catch (error) {
    const reason = error.cause?.code ?? error.message;
    if (reason !== trouble) log(`no mails from ${LATCHKEY_URL}: ${reason}`);
    trouble = reason;
  }
  if (!isStopping) await wait(PAUSE);
}
