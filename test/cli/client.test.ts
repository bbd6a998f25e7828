import { generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { parseClientCommand } from '../../src/cli/client.ts';
import { testFolder } from '../support/folder.ts';
import { latchkey } from '../support/latchkey.ts';
import { testDatabase } from '../support/postgres.ts';
import { sql } from '../support/sql.ts';

test('client creates, lists, rotates and deletes, with JSON output', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  const run = async (...args: string[]) => {
    const { code, stdout, stderr } = await latchkey(['client', ...args, '--json'], { DATABASE_URL });
    return { code, answer: JSON.parse(stdout || stderr) as Record<string, unknown> };
  };
  const created = await run('create', ' billing ');
  t.match(created, {
    code: 0,
    answer: { name: 'billing', client_id: /^lkc_/, client_secret: /^lks_[\w-]{43}$/ },
  });
  const { client_id, client_secret } = created.answer;
  t.match(await run('create', 'billing'), { code: 1, answer: { error: /already/ } });

  const listed = async () => (await run('list')).answer.clients as Record<string, unknown>[];
  t.match(await listed(), [{ name: 'billing', client_id, secrets: 1, created_at: /Z$/, rotated_at: null }]);
  t.strictSame((await listed())[0]?.rights, ['introspect', 'revoke', 'revocations']);
  const rotated = await run('rotate', 'billing');
  t.match(rotated, { code: 0, answer: { client_id, client_secret: /^lks_/ } });
  t.not(rotated.answer.client_secret, client_secret);
  t.match(await listed(), [{ secrets: 2, rotated_at: /Z$/ }]);
  t.match(await run('rotate', 'billing'), { code: 1, answer: { error: /two secrets are good already/ } });
  const again = await run('rotate', 'billing', '--again');
  t.match(again, { code: 0, answer: { client_secret: /^lks_/ } });
  t.not(again.answer.client_secret, rotated.answer.client_secret);
  t.match(await run('rotate', 'billing', '--finish'), { code: 0, answer: { client_id, secrets: 1 } });
  t.notMatch(JSON.stringify(await listed()), /lks_|hash/, 'shown once');

  const kept = await sql(DATABASE_URL, 'SELECT service_clients::text FROM service_clients');
  for (const { client_secret: secret } of [created.answer, rotated.answer]) {
    t.notMatch(JSON.stringify(kept), String(secret));
    const inHex = Buffer.from(String(secret)).toString('hex');
    t.notMatch(JSON.stringify(kept), inHex, 'not as bytes either');
  }

  t.match(await run('delete', 'billing'), { code: 0, answer: { deleted: 'billing' } });
  t.strictSame(await listed(), []);
  for (const args of [['delete'], ['rotate'], ['rotate', '--finish']])
    t.match(await run(...args, 'billing'), { code: 1, answer: { error: /no client has this name/ } });
});

test('client gives rights, shows them, and replaces them', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  const run = async (...args: string[]) => {
    const { code, stdout, stderr } = await latchkey(['client', ...args, '--json'], { DATABASE_URL });
    return { code, answer: JSON.parse(stdout || stderr) as { clients?: unknown; error?: string } };
  };
  t.match(await run('create', 'shop', '--may', 'users.read,introspect'), { code: 0 });
  t.match((await run('list')).answer.clients, [{ name: 'shop', rights: ['introspect', 'users.read'] }]);
  t.match(await run('allow', 'shop', 'users.write,users.reset,exchange'), {
    code: 0,
    answer: { name: 'shop', rights: ['users.write', 'users.reset', 'exchange'] },
  });
  t.match((await run('list')).answer.clients, [{ rights: ['users.write', 'users.reset', 'exchange'] }]);
  t.match(await run('allow', 'no-such', 'revoke'), { code: 1, answer: { error: /no client has this name/ } });
  for (const args of [
    ['create', 'other', '--may', 'everything'],
    ['allow', 'shop', 'revoke,everything'],
  ]) {
    const { code, answer } = await run(...args);
    t.equal(code, 2);
    t.match(
      answer.error,
      /^there is no right "everything"; the rights are introspect, revoke, revocations, /,
    );
  }
  t.match((await run('list')).answer.clients, [{ rights: ['users.write', 'users.reset', 'exchange'] }]);
  const { stdout } = await latchkey(['client', 'allow', 'shop', 'revoke'], { DATABASE_URL });
  t.match(stdout, /^may revoke;/);
});

test('client registers an audience, shows it, and gives it to one client only', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  const run = async (args: string[], env: Record<string, string> = {}) => {
    const { code, stdout, stderr } = await latchkey(['client', ...args, '--json'], { DATABASE_URL, ...env });
    return { code, answer: JSON.parse(stdout || stderr) as { clients?: unknown; error?: string } };
  };
  t.match(await run(['create', 'orders', '--audience', 'orders']), { code: 0 });
  t.match(await run(['create', 'desk']), { code: 0 });
  t.match((await run(['list'])).answer.clients, [
    { name: 'desk', audience: null },
    { name: 'orders', audience: 'orders', rights: ['introspect', 'revoke', 'revocations'] },
  ]);
  t.match(await run(['create', 'other', '--audience', 'orders']), {
    code: 1,
    answer: { error: 'a client with this name or this audience exists already' },
  });
  const isAudience = /is AUDIENCE/;
  t.match(await run(['create', 'a', '--audience', 'latchkey']), { code: 2, answer: { error: isAudience } });
  const env = { AUDIENCE: 'shop.example' };
  const named = ['create', 'a', '--audience', 'shop.example'];
  t.match(await run(named, env), { code: 2, answer: { error: isAudience } });
  t.match(await run(named), { code: 0 });
  const { stdout } = await latchkey(['client', 'list'], { DATABASE_URL });
  t.match(stdout, /^orders\t.*\taudience orders$/m);
  t.match(stdout, /^desk\t.*\tintrospect,revoke,revocations$/m);
});

test('client prints the same for people', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  const run = (...args: string[]) => latchkey(['client', ...args], { DATABASE_URL });
  t.match(await run('list'), { code: 0, stdout: 'there are no clients\n' });
  const { code, stdout, stderr } = await run('create', 'shop front');
  t.match({ code, stderr }, { code: 0, stderr: '' });
  t.match(stdout, /^client_id {6}lkc_\S+\nclient_secret {2}lks_\S+\n.*not be shown again/);
  t.match(await run('list'), {
    code: 0,
    stdout:
      /^name\tclient id\t.*\nshop front\tlkc_\S+\t1 secret\t\S+Z\tnever rotated\tintrospect,revoke,revocations\n$/,
  });
  t.match(await run('rotate', 'shop front'), { code: 0, stdout: /^client_secret {2}lks_/m });
  t.match(await run('list'), { stdout: /\t2 secrets\t/ });
  t.match(await run('delete', 'shop front'), { code: 0, stdout: 'deleted shop front\n' });
});

test('client replaces roles, ends tokens, disables and enables, and shows it', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  const run = async (...args: string[]) => {
    const { code, stdout, stderr } = await latchkey(['client', ...args, '--json'], { DATABASE_URL });
    return { code, answer: JSON.parse(stdout || stderr) as { clients?: unknown; error?: string } };
  };
  const options = ['--roles', 'billing:read,x', '--may', 'introspect,call:orders'];
  t.match(await run('create', 'shop', ...options), { code: 0 });
  t.match((await run('list')).answer.clients, [
    { rights: ['introspect', 'call:orders'], roles: ['billing:read', 'x'], version: 1, disabled_at: null },
  ]);
  t.match(await run('roles', 'shop', ''), { code: 0, answer: { roles: [], version: 1 } });
  t.match(await run('end-tokens', 'shop'), { code: 0, answer: { version: 2 } });
  t.match(await run('disable', 'shop'), { code: 0, answer: { version: 3, disabled_at: /Z$/ } });
  const { stdout } = await latchkey(['client', 'list'], { DATABASE_URL });
  t.match(stdout, /\bdisabled 20\d\d-/);
  t.match(await run('enable', 'shop'), { code: 0, answer: { version: 3, disabled_at: null } });
  for (const args of [
    ['roles', 'other', 'x'],
    ['end-tokens', 'other'],
    ['disable', 'other'],
    ['enable', 'other'],
  ])
    t.match(await run(...args), { code: 1, answer: { error: /no client has this name/ } });
});

test('client trusts workloads, says whose keys it replaces, and refuses what opens too much', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  const folder = testFolder(t);
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const aFile = (name: string, jwk: object) => {
    writeFileSync(join(folder, name), JSON.stringify({ keys: [jwk] }));
    return join(folder, name);
  };
  const jwks = aFile('public.json', publicKey.export({ format: 'jwk' }));
  const issuer = 'https://issuer.example';
  const env = { DATABASE_URL, ISSUER: 'https://auth.example' };
  const run = (...args: string[]) => latchkey(['client', ...args], env);
  const trust = (name: string, subject: string, ...args: string[]) =>
    run('trust', name, '--issuer', issuer, '--subject', subject, ...args);
  for (const name of ['pay', 'shop']) await run('create', name);
  t.match(await trust('shop', 'a'), {
    code: 0,
    stdout: /^may authenticate as a of \S+; replicas know at once\n$/,
  });
  t.match(await trust('pay', 'system:serviceaccount:pay:default'), {
    code: 0,
    stdout: /\nwarning: the pods of a namespace share the account "default"/,
  });
  t.match(await trust('pay', 'a'), { code: 1, stderr: /another client trusts this issuer and subject/ });
  for (const [other, stderr] of [
    [env.ISSUER, /is ISSUER/],
    ['http://issuer.example', /http must be on loopback/],
    ['spiffe://issuer.example', /give them with --jwks FILE/],
  ] as const)
    t.match(await run('trust', 'pay', '--issuer', other, '--subject', 'b'), { code: 2, stderr }, other);
  for (const jwk of [privateKey.export({ format: 'jwk' }), { kty: 'oct', k: 'c2VjcmV0' }])
    t.match(await trust('pay', 'b', '--jwks', aFile('secret.json', jwk)), {
      code: 1,
      stderr: /key 1 is private or symmetric/,
    });
  const isListed = async (keys_of_file: boolean) => {
    const { stdout } = await run('list', '--json');
    t.match(JSON.parse(stdout), {
      clients: [{ name: 'pay' }, { name: 'shop', trusts: [{ issuer, subject: 'a', keys_of_file }] }],
    });
  };
  await isListed(false);
  const own = ['pay', '--issuer', 'lkc_1', '--subject', 'lkc_1'];
  t.match(await run('trust', ...own, '--jwks', jwks), {
    code: 0,
    stdout: 'may authenticate as lkc_1, its own issuer; replicas know at once\n',
  });
  t.match(await run('list'), {
    stdout: /^pay\t.*\ttrusts lkc_1, its own issuer \(keys of a file\)(\t|$)/m,
  });
  t.match(await run('untrust', ...own), { stdout: /^may not authenticate as lkc_1, its own issuer;/ });
  t.match(await trust('pay', 'b', '--jwks', jwks), {
    code: 0,
    stdout: /\nThe keys of https:\/\/issuer\.example are now those of the file, also for shop\n/,
  });
  await isListed(true);
  t.match(await run('list'), {
    stdout: /^shop\t.*\ttrusts a of https:\/\/issuer\.example \(keys of a file\)$/m,
  });
});

test('client answers bad usage with exit code 2, and an outage with 1 and no details of the database', async (t) => {
  for (const args of [
    [],
    ['frobnicate', 'a'],
    ['create'],
    ['create', ''],
    ['create', 'x'.repeat(65)],
    ['create', 'a\u0007b'],
    ['create', 'a', 'b'],
    ['list', 'a'],
    ['delete'],
    ['finish', 'a'],
    ['allow'],
    ['allow', 'a'],
    ['allow', 'a', ''],
    ['allow', 'a', 'revoke', 'introspect'],
    ['allow', 'a', 'call:'],
    ['roles', 'a'],
    ['roles', 'a', 'x,,y'],
    ['roles', 'a', 'A'],
    ['disable', 'a', 'b'],
    ['end-tokens'],
  ])
    t.type(parseClientCommand(args, { again: false, finish: false }), 'string', args.join(' '));
  t.type(parseClientCommand(['rotate', 'a'], { again: true, finish: true }), 'string');
  for (const audience of ['', ' ', 'a b', 'a/b', '-a', '.', '..', 'é', 'a,b', 'a?', 'a%20', 'x'.repeat(65)])
    t.match(
      parseClientCommand(['create', 'a'], { again: false, finish: false, audience }),
      /^an audience has/,
      audience,
    );
  for (const audience of ['a', '7', 'orders.example', 'urn:orders', 'A_b-c', 'x'.repeat(64)])
    t.match(parseClientCommand(['create', 'a'], { again: false, finish: false, audience }), { audience });
  t.strictSame(parseClientCommand(['rotate', ' a '], { again: false, finish: false }), {
    action: 'rotate',
    name: 'a',
  });
  t.strictSame(parseClientCommand(['rotate', 'a'], { again: false, finish: true }), {
    action: 'finish',
    name: 'a',
  });

  const DATABASE_URL = 'postgres://user:sesame@127.0.0.1:1/none';
  t.match(await latchkey(['client', 'create'], { DATABASE_URL }), { code: 2, stderr: /Usage: latchkey/ });
  const away = await latchkey(['client', 'create', 'a'], { DATABASE_URL });
  t.equal(away.code, 1);
  t.notMatch(away.stdout + away.stderr, /sesame|\n {4}at |lks_/);
  t.match(await latchkey(['client', 'list'], { NODE_ENV: 'production' }), {
    code: 1,
    stderr: /DATABASE_URL is required/,
  });
});
