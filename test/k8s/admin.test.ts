import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { latchkey } from '../support/latchkey.ts';
import { testDatabase } from '../support/postgres.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { toolsMissing } from '../support/tools.ts';
import { only, type Kinds } from './kinds.ts';
import { render, ROOT, scratch } from './render.ts';
import { shellBlocks } from './secrets.ts';

const skip = toolsMissing('kubectl', 'bash');
const HEADING = "Operators' commands";

/** The real one changes manifests; what a cluster would make of the CronJob comes from a file, what it would get goes to one. */
const KUBECTL = `#!/usr/bin/env bash
case "$*" in
  *' create job '*' --from=cronjob/latchkey-admin --dry-run=client -o json') cat "$JOB" ;;
  *' create -f -') cat >"$CREATED" ;;
  *' logs -f job/latchkey-admin-'*) echo logged ;;
  *) PATH=$REAL_PATH exec kubectl "$@" ;;
esac
`;

test(
  'the CronJob that lends its pod never runs by itself, and does nothing unless it is told',
  { skip },
  (t) => {
    const { spec } = only(render('k8s/base'), 'CronJob', 'latchkey-admin');
    t.equal(spec.suspend, true);
    t.equal(spec.jobTemplate.spec.backoffLimit, 0, 'a command that failed is not run again');
    t.strictSame(spec.jobTemplate.spec.template.spec.containers[0]?.args, ['--help']);
    t.end();
  },
);

test('the README’s function gives that pod a command', { skip }, (t) => {
  const { jobTemplate } = only(render('k8s/base'), 'CronJob', 'latchkey-admin').spec;
  for (const words of [['recover'], ['migrate', '--resolve-applied', '20260101000000_a b']]) {
    const expected = structuredClone(jobTemplate);
    Object.assign(expected.spec.template.spec.containers[0] ?? {}, { args: words });
    t.strictSame(created(t, words).spec, expected.spec);
  }
  t.end();
});

test('every command that the README names is one', { skip }, async (t) => {
  const readme = readFileSync(join(ROOT, 'k8s/README.md'), 'utf8');
  const commands = [
    ...readme.matchAll(/^latchkey_admin (?!\()(.+)$|`latchkey_admin (.+?)`|dist\/src\/cli\.js (.+)$/gm),
  ];
  t.ok(commands.length >= 3);
  for (const [, line, inText, inPod] of commands) {
    const words = (line ?? inText ?? inPod ?? '').split(' ');
    const { code, stderr } = await latchkey(words, { DATABASE_URL: 'postgres://127.0.0.1:1/x' });
    t.not(code, 2, `${words.join(' ')}: ${stderr}`);
  }
});

test('recover has all that it needs in that pod', { skip: skip || redisMissing }, async (t) => {
  const [{ url }, redis, folder] = [await testDatabase(t), testRedis(t), scratch(t)];
  writeFileSync(join(folder, 'database-url'), url);
  writeFileSync(join(folder, 'redis-url'), redis.url);
  const { containers } = created(t, ['recover']).spec.template.spec;
  const [{ command = [], args = [], env = [], volumeMounts: [mount] = [] } = {}] = containers;
  t.strictSame(command, ['node', 'dist/src/cli.js']);
  const files = env.map(({ name, value = '' }) => [name, value.replace(mount?.mountPath ?? '', folder)]);
  const data = only(render('k8s/overlays/production'), 'ConfigMap', configMapOf()).data;
  const done = await latchkey(args, {
    ...data,
    ...(Object.fromEntries(files) as Record<string, string>),
    REDIS_PREFIX: redis.prefix,
    NODE_ENV: 'production',
  });
  t.match(done, { code: 0, stdout: /^Redis knew 0 tokens/ });
});

function configMapOf(): string {
  const { template } = only(render('k8s/overlays/production'), 'CronJob', 'latchkey-admin').spec.jobTemplate
    .spec;
  return template.spec.containers[0]?.envFrom?.[0]?.configMapRef?.name ?? '';
}

/** What the function sends to the cluster. */
function created(t: Test, words: string[]): Kinds['Job'] {
  const folder = scratch(t);
  const { PATH = '' } = process.env;
  const [bin, job, sent] = [join(folder, 'bin'), join(folder, 'job.json'), join(folder, 'sent.json')];
  mkdirSync(bin);
  writeFileSync(join(bin, 'kubectl'), KUBECTL);
  chmodSync(join(bin, 'kubectl'), 0o755);
  const { jobTemplate } = only(render('k8s/base'), 'CronJob', 'latchkey-admin').spec;
  const made = { apiVersion: 'batch/v1', kind: 'Job', metadata: { name: 'latchkey-admin-1' } };
  writeFileSync(job, JSON.stringify({ ...made, spec: jobTemplate.spec }));
  const definition = shellBlocks(HEADING).find((block) => block.startsWith('latchkey_admin() {')) ?? '';
  const { status, stdout, stderr } = spawnSync(
    'bash',
    ['-euo', 'pipefail', '-c', `${definition}\nlatchkey_admin "$@"`, 'bash', ...words],
    { env: { PATH: `${bin}:${PATH}`, REAL_PATH: PATH, JOB: job, CREATED: sent }, encoding: 'utf8' },
  );
  if (status !== 0 || !stdout.endsWith('logged\n')) throw new Error(stderr);
  return JSON.parse(readFileSync(sent, 'utf8')) as Kinds['Job'];
}
