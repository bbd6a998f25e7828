// Sends the mails that Latchkey's accounts want: takes them every 2 s, hands each to a command and settles it. Run it
// twice if you like, because no two mailers get one mail at the same time. See README.md.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { domainToASCII } from 'node:url';
import { parseArgs } from 'node:util';
import { LANGUAGES, languageOf } from './texts.mjs';

/** Without the white space and the byte order mark that editors and secret stores leave around a value. */
const setting = (name, fallback = '') => process.env[name]?.trim() || fallback;
const secretFile = setting('LATCHKEY_CLIENT_SECRET_FILE');

const LATCHKEY_URL = setting('LATCHKEY_URL', 'http://localhost:3000');
const PAGE_URL = setting('PAGE_URL', 'http://localhost:5000');
const MAIL_FROM = setting('MAIL_FROM', 'no-reply@localhost');
const MAIL_COMMAND = setting('MAIL_COMMAND');
const id = setting('LATCHKEY_CLIENT_ID');
const secret = secretFile ? readFileSync(secretFile, 'utf8').trim() : setting('LATCHKEY_CLIENT_SECRET');

const PAUSE = 2000; // milliseconds between two requests
const PATIENCE = 35_000; // milliseconds for a command: after 60 s another mailer may take the mail
const AT_ONCE = 10; // commands

/** The page to which the mails of each kind link; a notice has no link. */
const PAGES = {
  password_reset: '/reset',
  invitation: '/reset',
  email_verification: '/verify',
  email_change: '/address',
};
/** Latchkey leaves every other kind to another mailer, so an older mailer never meets one without a text. */
const KINDS = [...Object.keys(PAGES), 'notice'];

/**
 * The exit code (sysexits.h) by which a command says that no mail will ever arrive: no such user. Not 68, no such host: msmtp
 * ends with it if it cannot look its own server up, so an outage of DNS would make every address undeliverable.
 */
const NO_USER = 67;

class Undeliverable extends Error {}

/** Atoms with dots between them (RFC 5322, 3.2.3), also of other scripts (RFC 6532). */
const DOT_ATOM = /^[^\s\p{Cc}\p{Cs}<>()[\]\\,;:"@.]+(?:\.[^\s\p{Cc}\p{Cs}<>()[\]\\,;:"@.]+)*$/u;
const LITERAL = /^\[(?:[\d.]+|IPv6:[\da-f:.]+)\]$/i;

/**
 * The address as it stands in a header. Latchkey 1.0.0 took texts that a header would read as several addresses.
 * @throws Undeliverable
 */
function inHeader(address, what = 'its address') {
  const at = address.lastIndexOf('@');
  const [local, domain] = [address.slice(0, at), address.slice(at + 1)];
  // A-labels, because fewer servers take a domain in its own script.
  const host = /^[ -~]*$/.test(domain) ? domain : domainToASCII(domain);
  if (!DOT_ATOM.test(local) || !(DOT_ATOM.test(host) || LITERAL.test(host)))
    throw new Undeliverable(`${what} is no address that a header can hold`);
  return `${local}@${host}`;
}

const SENDER = inHeader(MAIL_FROM, 'MAIL_FROM');

/** As encoded words of RFC 2047, one a line, unless it is ASCII: not all servers take other letters in a header. */
function headerText(text) {
  if (/^[ -~]*$/.test(text)) return text;
  const words = [''];
  for (const letter of text) {
    if (Buffer.byteLength(words.at(-1) + letter) > 39) words.push('');
    words[words.length - 1] += letter;
  }
  return words.map((word) => `=?utf-8?B?${Buffer.from(word).toString('base64')}?=`).join('\r\n ');
}

/** Lines of at most 72 characters, where words allow it. */
function wrapped(text) {
  return text.match(/\S.{0,71}(?= |$)|\S+/gu);
}

function textOf({ kind, event, at, token, expires_at }, language) {
  const { greeting, paste, once, kinds, events, otherEvent, alarm } = LANGUAGES[language];
  const clock = new Intl.DateTimeFormat(language === 'en' ? 'en-GB' : language, {
    dateStyle: 'long',
    timeStyle: 'short',
    timeZone: 'UTC',
  });
  const time = (date) => `${clock.format(new Date(date))} UTC`;
  if (kind === 'notice') {
    const { subject, text } = events[event] ?? otherEvent;
    return { subject, lines: [greeting, '', ...wrapped(text(time(at))), '', ...wrapped(alarm)] };
  }
  const { subject, text } = kinds[kind];
  // Behind the # the token reaches no server and no log. The page posts it when its user presses a button: mail scanners
  // open every link, and a page that posted it by itself would let them use it up.
  const link = `${PAGE_URL}${PAGES[kind]}#${token}`;
  const lines = [greeting, '', ...wrapped(text), '', link, '', ...wrapped(paste), '', token, ''];
  return { subject, lines: [...lines, ...wrapped(once(time(expires_at)))] };
}

/** An RFC 5322 message. @throws Undeliverable */
function messageOf(mail) {
  const language = languageOf(mail.locale);
  const { subject, lines } = textOf(mail, language);
  return [
    `From: <${SENDER}>`,
    `To: <${inHeader(mail.email)}>`,
    `Subject: ${headerText(subject)}`,
    `Date: ${new Date().toUTCString().replace('GMT', '+0000')}`,
    // Each taking has an id of its own. The time keeps the mails of two Latchkeys apart that share a domain: a mailbox
    // shows only one message of an id.
    `Message-ID: <${mail.id}.${Date.now()}@${SENDER.slice(SENDER.lastIndexOf('@') + 1)}>`,
    'MIME-Version: 1.0',
    'Content-Type: text/plain; charset=utf-8',
    'Content-Transfer-Encoding: 8bit',
    `Content-Language: ${language}`,
    'Auto-Submitted: auto-generated',
    '',
    ...lines,
    '',
  ].join('\r\n');
}

/** @throws Undeliverable if no retry can help; another Error unless a command takes the message and ends with 0. */
async function handOver(message) {
  if (!MAIL_COMMAND) {
    process.stdout.write(`${message}\r\n`);
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
      if (code === 0) return resolve();
      const Failure = code === NO_USER ? Undeliverable : Error;
      reject(new Failure(`MAIL_COMMAND ended with ${code ?? signal}`));
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

/** Latchkey then sends no more mails there, until the address is proved or changed. It settles what waits for it. */
function reportUndeliverable(email) {
  return ask('POST', '/api/users/mails/undeliverable', { email });
}

/** A mail that fails is not settled, so a mailer takes it again: after a minute, and later and later. */
async function send(mail) {
  const name = `mail ${mail.id} (${mail.event ?? mail.kind})`;
  try {
    await handOver(messageOf(mail));
    await ask('DELETE', `/api/users/mails/${mail.id}`);
    log(`${name} is handed over`);
  } catch (error) {
    log(`${name}: ${error.message}`);
    if (!(error instanceof Undeliverable)) return;
    await reportUndeliverable(mail.email).then(
      () => log(`${name} is reported as undeliverable`),
      (failure) => log(`${name}: ${failure.message}`),
    );
  }
}

/** Without addresses and tokens, and on standard error: standard output may be the mail. */
function log(line) {
  process.stderr.write(`${line}\n`);
}

/** Takes mails until a signal ends it. */
async function work() {
  let isStopping = false;
  for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => (isStopping = true));
  let trouble = '';
  while (!isStopping) {
    try {
      const { mails } = await ask('POST', '/api/users/mails', { limit: AT_ONCE, kinds: KINDS });
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
}

const { undeliverable } = parseArgs({ options: { undeliverable: { type: 'string' } } }).values;
if (undeliverable === undefined) await work();
else await reportUndeliverable(undeliverable);
