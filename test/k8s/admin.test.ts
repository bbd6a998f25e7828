import { randomBytes } from 'node:crypto';
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { test, type Test } from 'tap';
import { parseArguments, USAGE } from '../../src/cli/arguments.ts';
import type { Command, Outcome } from '../../src/cli/command.ts';
import { latchkey } from '../support/latchkey.ts';
import { testDatabase } from '../support/postgres.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { toolsMissing } from '../support/tools.ts';
import { only, type Kinds, type PodSpec } from './kinds.ts';
import { makeMounts, variablesIn } from './mounts.ts';
import { render, scratch } from './render.ts';
import { madeSecrets, PRODUCTION, shellBlocks } from './secrets.ts';

const skip = toolsMissing('kubectl', 'bash');
const HEADING = "Operators' commands";

/** Milliseconds until a function that loops for ever is killed. */
const TIMEOUT = 30_000;

/**
 * A wrapper of the real kubectl: reads the CronJob's Job from a file, and writes the created Job to another. The results
 * of the Job are the lines of a file, one for each time that it is asked for.
 */
const KUBECTL = `#!/usr/bin/env bash
case "$*" in
  *' create job '*' --from=cronjob/latchkey-admin --dry-run=client -o json') cat "$JOB" ;;
  *' create -f -') [ "$REFUSES" = no ] && cat >"$CREATED" ;;
  *' logs -f job/latchkey-admin-'*) [ "$STARTS" = yes ] && echo logged ;;
  *' get job latchkey-admin-'*) sed -n 1p "$RESULTS"; sed -i 1d "$RESULTS" ;;
  *' describe '* | *' delete job latchkey-admin-'*) echo "called: $*" ;;
  *) PATH=$REAL_PATH exec kubectl "$@" ;;
esac
`;

/** Half a minute passes between two looks at the clock. */
const DATE = `#!/usr/bin/env bash
echo tick >>"$TICKS"
echo $((1000000 + 30 * $(wc -l <"$TICKS")))
`;

test('the admin CronJob is suspended, and its pod does nothing without a command', { skip }, (t) => {
  const { spec } = only(render('k8s/base'), 'CronJob', 'latchkey-admin');
  t.equal(spec.suspend, true);
  t.equal(spec.jobTemplate.spec.backoffLimit, 0, 'a failed command does not run again');
  t.strictSame(spec.jobTemplate.spec.template.spec.containers[0]?.args, ['--help']);
  t.end();
});

test('the README’s function starts the pod with a command', { skip }, (t) => {
  const { jobTemplate } = only(render('k8s/base'), 'CronJob', 'latchkey-admin').spec;
  for (const words of [
    ['recover', '--yes'],
    ['migrate', '--resolve-applied', '20260101000000_a b'],
  ]) {
    const expected = structuredClone(jobTemplate);
    const [container] = expected.spec.template.spec.containers;
    const operator = { name: 'LATCHKEY_OPERATOR', value: userInfo().username };
    Object.assign(container ?? {}, { args: words, env: [...(container?.env ?? []), operator] });
    t.strictSame(created(t, words).spec, expected.spec);
  }
  t.end();
});

test('the README’s function fails if the command fails, and not before it has ended', { skip }, (t) => {
  for (const last of ['/1', '', '0/1'])
    t.match(latchkeyAdmin(t, ['purge'], { results: ['/', '/', last] }), {
      status: 1,
      stderr: /latchkey-admin-\d+ has failed/,
    });
  t.match(latchkeyAdmin(t, ['purge'], { results: ['/', '/', '1/'] }), { status: 0, stdout: /logged\n$/ });
  t.match(latchkeyAdmin(t, ['purge'], { results: ['1/0'] }), { status: 0 });
  t.end();
});

test('the README’s function ends if the Job is refused', { skip }, (t) => {
  t.match(latchkeyAdmin(t, ['purge'], { refuses: true }), { status: 1, stdout: '' });
  t.end();
});

test('the README’s function ends, and deletes the Job, if its pod cannot start', { skip }, (t) => {
  const { status, stdout, stderr } = latchkeyAdmin(t, ['purge'], { starts: false });
  t.equal(status, 1);
  t.match(stderr, /has not started within two minutes/);
  t.match(stderr, /^called: .*describe job latchkey-admin-/m);
  t.match(stderr, /^called: .*describe pods -l job-name=latchkey-admin-/m);
  t.match(stdout, /^called: .*delete job latchkey-admin-/m);
  t.end();
});

const WORKLOAD = ['--issuer', 'https://issuer.example', '--subject', 'system:serviceaccount:shop:shop'];

/** As `wp user list --format=json` writes it. */
const WORDPRESS_USERS = JSON.stringify([
  {
    ID: '7',
    user_login: 'grace',
    user_email: 'grace@example.com',
    user_pass: '$P$B55D6LjfHDkINU5wF.v2BuuzO0/XPk/',
  },
]);

/** Every command with its arguments, in an order that works, and the text of its result. */
const COMMANDS: [command: string, more: string[], text: RegExp][] = [
  ['migrate', [], /^applied /],
  ['doctor', [], /^ok +memory: .* of 768 MiB$/m],
  ['plan', ['--users', '1000'], /replicas/i],
  ['keys list', [], /\.pem {2}unseen/],
  ['keys doctor', [], /^ok /m],
  ['factors rekey', [], /^0 secrets encrypted/],
  [
    'user create',
    ['ada', '--display-name', 'Ada', '--email', 'ada@example.com'],
    /^created user 1, who has no password yet$/,
  ],
  ['user show', ['ada'], /ada/],
  ['user list', [], /ada/],
  ['explain', [], /^The token is not good: malformed\.$/m],
  ['user roles', ['ada', '--set', ''], /^roles: none$/],
  ['user disable', ['ada'], /^disabled, 0 tokens ended$/],
  ['user enable', ['ada'], /^enabled$/],
  ['user reset', ['ada'], /^reset_token /],
  ['user tokens', ['ada'], /\b0\b|\bno\b/],
  ['user factors', ['ada'], /\b0\b|\bno\b/],
  ['user export', ['EXPORT'], /^exported 1 accounts/],
  ['user delete', ['ada', '--yes'], /^deleted, 0 tokens ended$/],
  [
    'user convert',
    ['--from', 'wordpress', 'WORDPRESS', 'CONVERTED', '--drop-factors'],
    /^converted 1 accounts, left out 0$/m,
  ],
  // The names of a deleted account are reserved.
  ['user import', ['EXPORT'], /^imported 0, refused 1, skipped 0$/],
  ['client create', ['shop'], /client_secret/],
  ['client list', [], /shop/],
  ['readers forget', ['shop'], /^0 forgotten/],
  ['client allow', ['shop', 'introspect'], /introspect/],
  ['client roles', ['shop', 'billing:read'], /billing:read/],
  ['client trust', ['shop', ...WORKLOAD], /may authenticate/],
  ['client untrust', ['shop', ...WORKLOAD], /may not authenticate/],
  ['client disable', ['shop'], /^disabled/],
  ['client enable', ['shop'], /^enabled/],
  ['client end-tokens', ['shop'], /refuse its service tokens/],
  ['client rotate', ['shop'], /client_secret/],
  ['client delete', ['shop'], /shop/],
  ['purge', [], /^purged 0 records/],
  ['recover', ['--yes'], /^Redis holds 0 tokens/],
  // It has marked Redis as this database's.
  ['readers list', [], /^no readers$/],
  ['readers enforced', ['--all', '--wait', '0'], /^done, but no reader is known/],
  [
    'drill',
    ['--latchkey', 'http://127.0.0.1:9'],
    /^not run: POST api\/auth got no answer from 127\.0\.0\.1:9$/,
  ],
  ['settings accept', [], /^ISSUER: https:.* is recorded$/m],
];

/** Those that end with code 1 here. */
const UNWELL = ['explain', 'drill', 'readers enforced', 'user import'];

test('every command has all that it needs in that pod', { skip: skip || redisMissing }, async (t) => {
  // A pod cannot change the Secret of the keys (test/container/kubernetes.test.ts).
  const documented = [...USAGE.matchAll(/^ {2}([a-z]+(?: [a-z][a-z-]*)?)(?= |$)/gm)].map(
    ([, name = '']) => name,
  );
  const all = new Set(documented.filter((name) => !['keys add', 'keys retire'].includes(name)));
  t.strictSame(COMMANDS.map(([command]) => command).sort(), [...all].sort());

  const [{ url }, redis] = [await testDatabase(t, { migrated: false }), testRedis(t)];
  const secrets = madeSecrets(t);
  Object.assign(secrets['latchkey-owner'] ?? {}, { 'database-url': url });
  Object.assign(secrets.latchkey ?? {}, { 'redis-url': redis.url });
  const manifests = render('k8s/overlays/production');
  const { spec } = only(manifests, 'CronJob', 'latchkey-admin').spec.jobTemplate.spec.template;
  const env = {
    ...variablesIn(makeMounts(scratch(t), secrets), spec, manifests),
    REDIS_PREFIX: redis.prefix,
    NODE_ENV: 'production',
    // Which the README says how to add.
    FACTOR_KEYS: randomBytes(32).toString('base64url'),
  };
  t.intercept(process, 'constrainedMemory', { value: () => memoryOf(spec) });
  t.intercept(process, 'stdin', { value: Readable.from(['no token']) });
  const folder = scratch(t);
  const files: Readonly<Record<string, string>> = {
    EXPORT: join(folder, 'users.jsonl'),
    WORDPRESS: join(folder, 'wordpress.json'),
    CONVERTED: join(folder, 'converted.jsonl'),
  };
  writeFileSync(files.WORDPRESS ?? '', WORDPRESS_USERS);
  for (const [command, more, text] of COMMANDS) {
    const words = more.map((word) => files[word] ?? word);
    const outcome = await inThisProcess([...command.split(' '), ...words], env);
    t.match(outcome.text, text, command);
    t.equal(outcome.isWell ?? true, !UNWELL.includes(command), command);
  }
  t.match(await latchkey(['recover', '--yes'], env), { code: 0, stdout: /^Redis holds 0 tokens/ });
});

/** Bytes. */
function memoryOf({ containers: [container] }: PodSpec): number {
  return Number(/^(\d+)Mi$/.exec(container?.resources?.limits?.memory ?? '')?.[1]) * 1024 ** 2;
}

/** Starting two dozen processes is slow. */
async function inThisProcess(args: string[], env: Record<string, string>): Promise<Outcome> {
  const { values, positionals } = parseArguments(args);
  const [name = '', ...words] = positionals;
  const module = new URL(`../../src/cli/${name}.js`, import.meta.url).href;
  const { run } = (await import(module)) as { run: Command };
  const stopped = () => new AbortController().signal;
  return run({ env, words, values, note: () => undefined, stopped });
}

/** The Job that the function sends to the cluster. */
function created(t: Test, words: string[]): Kinds['Job'] {
  const { status, stdout, stderr, job } = latchkeyAdmin(t, words);
  if (status !== 0 || !stdout.endsWith('logged\n')) throw new Error(stderr);
  return job();
}

interface Cluster {
  /** Whether the Job's container starts. */
  starts?: boolean;
  /** Whether the Job is refused. */
  refuses?: boolean;
  /** What kubectl prints each time that it is asked for the Job's counts. */
  results?: string[];
}

/** Runs the README's function. */
function latchkeyAdmin(
  t: Test,
  words: string[],
  { starts = true, refuses = false, results = ['1/'] }: Cluster = {},
) {
  const folder = scratch(t);
  const { PATH = '' } = process.env;
  const [bin, job, sent] = [join(folder, 'bin'), join(folder, 'job.json'), join(folder, 'sent.json')];
  const [ticks, rest] = [join(folder, 'ticks'), join(folder, 'results')];
  mkdirSync(bin);
  for (const [name, script] of Object.entries({ kubectl: KUBECTL, date: DATE, sleep: '#!/bin/sh\n' })) {
    writeFileSync(join(bin, name), script);
    chmodSync(join(bin, name), 0o755);
  }
  const { jobTemplate } = only(render('k8s/base'), 'CronJob', 'latchkey-admin').spec;
  const made = { apiVersion: 'batch/v1', kind: 'Job', metadata: { name: 'latchkey-admin-1' } };
  writeFileSync(job, JSON.stringify({ ...made, spec: jobTemplate.spec }));
  writeFileSync(rest, results.map((line) => `${line}\n`).join(''));
  const definition = shellBlocks(HEADING).find((block) => block.startsWith('latchkey_admin() (')) ?? '';
  const env = {
    ...PRODUCTION,
    PATH: `${bin}:${PATH}`,
    REAL_PATH: PATH,
    JOB: job,
    CREATED: sent,
    TICKS: ticks,
    RESULTS: rest,
    STARTS: starts ? 'yes' : 'no',
    REFUSES: refuses ? 'yes' : 'no',
  };
  const { status, stdout, stderr } = spawnSync(
    'bash',
    ['-euo', 'pipefail', '-c', `${definition}\nlatchkey_admin "$@"`, 'bash', ...words],
    { env, encoding: 'utf8', timeout: TIMEOUT },
  );
  return { status, stdout, stderr, job: () => JSON.parse(readFileSync(sent, 'utf8')) as Kinds['Job'] };
}
