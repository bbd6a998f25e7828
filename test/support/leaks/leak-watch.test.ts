// suite: tools
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { secretsInHttp } from './http-secrets.ts';
import { makeNeedles } from './needles.ts';

const ROOT = new URL('../../../../', import.meta.url).pathname;
const PLANTED = new URL('planted.js', import.meta.url).pathname;
const JWT = 'eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiI3In0.c2lnbmF0dXJlIG9mIGEgdG9rZW4';

/** Runs a test file with these leaks. */
async function run(...plants: string[]) {
  const secret = `Hunter2-${randomBytes(6).toString('hex')}`;
  const child = spawn(process.execPath, [PLANTED, secret, ...plants]);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  }
  const [code] = (await once(child, 'close')) as [number];
  return { code, output, secret };
}

test('a leak fails its test file, whose report does not repeat it', async (t) => {
  const { code, output, secret } = await run('log');
  t.equal(code, 1);
  t.match(output, /the app of "log": LEAK in its log: password: .*‹password›.*"msg":"planted"/);
  t.notOk(output.toLowerCase().includes(secret.toLowerCase()));
});

test('a test file fails if it had nothing to search', async (t) => {
  const silent = await run('silence');
  t.equal(silent.code, 1);
  t.match(silent.output, /nothing was searched: no spans, no secret on the wire/);
  const empty = await run('nothing');
  t.equal(empty.code, 1);
  t.match(empty.output, /nothing was searched: no log, no metrics, no spans, no secret on the wire/);
});

test('a test file without a leak passes', async (t) => {
  const { code, output } = await run('none');
  t.equal(code, 0, output);
  t.notMatch(output, 'LEAK');
});

test('every file of the attack, end-to-end and fuzz suites is watched', (t) => {
  const files = ['attack', 'e2e', 'fuzz'].flatMap((suite) =>
    readdirSync(join(ROOT, 'test', suite))
      .filter((name) => name.endsWith('.test.ts'))
      .map((name) => join('test', suite, name)),
  );
  t.ok(files.length > 10);
  for (const file of files) {
    t.match(readFileSync(join(ROOT, file), 'utf8'), "import '../support/watch-leaks.ts';", file);
  }
  t.end();
});

test('a secret is found in any encoding', (t) => {
  const secret = 'pass "word" ünd/mehr\n';
  for (const text of [
    secret,
    secret.trim(),
    secret.toUpperCase(),
    JSON.stringify({ secret }),
    new URL(`http://x/?${encodeURIComponent(secret)}`).search,
    `Basic ${Buffer.from(secret).toString('base64')}`,
  ]) {
    const needles = makeNeedles();
    needles.remember('password', secret);
    const [found] = needles.search(`first line\n{"msg":"${text}"}\nlast line`);
    t.match(found, { kind: 'password', line: /‹password›/ }, text);
    t.notMatch(found?.line, /line|mehr/, 'the report shows its line alone, and not the secret');
  }
  t.end();
});

test('text that looks like a secret is found without being known', (t) => {
  const { search } = makeNeedles();
  for (const [text, kind] of [
    [`token ${JWT} end`, 'token'],
    [`a mail with lkr_${'Ab3-'.repeat(10)}_xY`, 'one-time token'],
    [`a mail with lkv_${'Ab3-'.repeat(10)}_xY`, 'one-time token'],
    [`a step with lkl_${'Ab3-'.repeat(21)}_x`, 'login token'],
    ['a note of MFRG-GZDF-MZTW-Q2LK-NNWG-2ZLB', 'recovery code'],
    ['a QR code of otpauth://totp/x', 'totp secret'],
    ['mail to ada.lovelace@example.com failed', 'e-mail address'],
    ['cannot reach postgres://ada:hunter2@localhost/x', 'password of a URL'],
    ['-----BEGIN PRIVATE KEY-----', 'private key'],
  ] as const) {
    const [found, ...others] = search(text);
    t.equal(found?.kind, `${kind} (by its looks)`);
    t.strictSame(others, []);
  }
  t.strictSame(search('at file:///srv/node_modules/@prisma/client.js:7:1 postgres@127.0.0.1'), []);
  t.end();
});

test('short values are not searched for', (t) => {
  const needles = makeNeedles();
  needles.remember('password', 'eleven char');
  t.equal(needles.count(), 0);
  t.strictSame(needles.search('eleven char'), []);
  t.end();
});

test('secrets are read from requests and answers', (t) => {
  const basic = Buffer.from('billing:client%20secret%21').toString('base64');
  const sent = [
    'POST /api/auth?reset_token=in-the-query-1 HTTP/1.1',
    `Authorization: Basic ${basic}`,
    '',
    `{"username":"ada@example.com","password":"a \\"quoted\\" one","device":"x","email":"b@example.com"}`,
    `HTTP/1.1 200 OK\r\n\r\n{"access_token":"${JWT}"}`,
    '{"secret":"gezdgnbvgy3tqojq","recovery_codes":["MFRG-GZDF","MZTW-Q2LK"]}',
    'token=in-a-form%21%21%21&token_type_hint=x',
  ].join('\r\n');
  t.strictSame(
    new Set(Array.from(secretsInHttp(sent), ([kind, value]) => `${kind}: ${value}`)),
    new Set([
      `token: ${JWT}`,
      'token: c2lnbmF0dXJlIG9mIGEgdG9rZW4',
      `token: ${basic}`,
      'client secret: client secret!',
      'e-mail address: ada@example.com',
      'password: a "quoted" one',
      'e-mail address: b@example.com',
      'second factor: gezdgnbvgy3tqojq',
      'second factor: MFRG-GZDF',
      'second factor: MZTW-Q2LK',
      'token: in-the-query-1',
      'token: in-a-form!!!',
    ]),
  );
  t.end();
});
