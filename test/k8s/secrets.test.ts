import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { readSigningKeys } from '../../src/infra/crypto/key-files.ts';
import { parseRefreshSecrets } from '../../src/infra/crypto/keys.ts';
import { toolsMissing } from '../support/tools.ts';
import { workloadsOf } from './kinds.ts';
import { renderWith, scratch } from './render.ts';
import { madeSecrets, secretFolder, writeSecret, type SecretFolder, type Secrets } from './secrets.ts';

const skip = toolsMissing('kubectl', 'bash', 'openssl');
const NEW_KEYS = 'New keys, without a restart';

test('the README’s commands create every mounted Secret and file', { skip }, (t) => {
  const folder = secretFolder(t);
  folder.run('Secrets', 0);
  t.equal(statSync(folder.path).mode & 0o077, 0, 'only its owner can read the folder');
  folder.run('Secrets', 1);
  folder.run('Connections');
  folder.run('Secrets', 2);
  const secrets = folder.applied();

  const manifests = renderWith(t, 'k8s/overlays/dev', ['pgbouncer']);
  for (const { name, template } of workloadsOf(manifests)) {
    const { containers, volumes = [] } = template.spec;
    for (const { secret } of volumes) {
      if (!secret) continue;
      const files = Object.keys(secrets[secret.secretName] ?? {});
      t.not(files.length, 0, `${name}: Secret ${secret.secretName}`);
      for (const { key } of secret.items ?? []) t.ok(files.includes(key), `${name}: ${key}`);
    }
    for (const { env = [], volumeMounts = [] } of containers) {
      for (const { value = '' } of env.filter((it) => it.name.endsWith('_FILE') && it.value !== '')) {
        const mount = volumeMounts.find(({ mountPath }) => value.startsWith(`${mountPath}/`));
        const volume = volumes.find((it) => it.name === mount?.name);
        const file = value.slice((mount?.mountPath.length ?? 0) + 1);
        t.type(secrets[volume?.secret?.secretName ?? '']?.[file], 'string', `${name}: ${value}`);
      }
    }
  }
  t.end();
});

test('other users may not read any file that the README’s commands create', { skip }, (t) => {
  const folder = secretFolder(t);
  folder.run('Secrets', 0, '2026-11-21');
  folder.run('Secrets', 1);
  folder.run('Connections');
  folder.run(NEW_KEYS, 0, '2026-12-01');
  folder.run(NEW_KEYS, 1);
  for (const n of [4, 5]) folder.run(NEW_KEYS, n);
  const files = readdirSync(folder.path, { recursive: true, encoding: 'utf8' });
  t.ok(files.length > 8);
  for (const file of files) t.equal(statSync(join(folder.path, file)).mode & 0o077, 0, file);
  t.end();
});

test('PgBouncer gets the decoded password, even if the URL encodes it', { skip }, (t) => {
  const folder = secretFolder(t);
  folder.run('Secrets', 0);
  const url = new URL('postgres://latchkey@db.internal:5432/latchkey?sslmode=require');
  url.password = encodeURIComponent('p@ss/w"rd%');
  writeFileSync(join(folder.path, 'latchkey/database-url'), url.href);
  folder.run('Connections');
  folder.run('Secrets', 2);
  const { pgbouncer, latchkey } = folder.applied();
  t.equal(pgbouncer?.['userlist.txt'], '"latchkey" "p@ss/w""rd%"\n');
  const pooled = new URL(latchkey?.['pooled-database-url'] ?? '');
  t.equal(decodeURIComponent(pooled.password), 'p@ss/w"rd%');
  t.equal(pooled.search, '');
  t.end();
});

test('the trial database and its clients share one password', { skip }, (t) => {
  const secrets = madeSecrets(t);
  const { password } = new URL(secrets.latchkey?.['database-url'] ?? '');
  t.match(password, /^[0-9a-f]{48}$/);
  t.equal(secrets.postgres?.password, password);
  t.end();
});

/** Runs every step twice: the second run must be a no-op. */
function steps(t: Test, folder: SecretFolder) {
  return (n: number, today?: string) => {
    folder.run(NEW_KEYS, n, today);
    folder.run('Secrets', 2);
    const once = keysOf(scratch(t), folder.applied());
    folder.run(NEW_KEYS, n, today);
    folder.run('Secrets', 2);
    t.strictSame(keysOf(scratch(t), folder.applied()), once, `step ${n} may be run twice`);
    return once;
  };
}

test(
  'over several changes a refresh secret verifies before it signs and until its removal',
  { skip },
  (t) => {
    const folder = secretFolder(t);
    folder.run('Secrets', 0);
    folder.run('Secrets', 2);
    const step = steps(t, folder);
    let { refresh: before } = keysOf(scratch(t), folder.applied());
    for (const change of [1, 2, 3]) {
      const known = step(1).refresh;
      t.strictSame(known.slice(0, -1), before, 'all others stay unchanged');
      t.equal(known.length, change + 1, 'while the next one is added');
      t.strictSame(step(3).refresh, known, 'the last step is a no-op during a change');
      const signing = step(2).refresh;
      t.strictSame(signing, [known.at(-1), ...before], 'the new one signs, and the others verify');
      before = signing;
    }
    t.strictSame(step(3).refresh, before.slice(0, 1), 'the signing one stays');
    t.strictSame(step(2).refresh, before.slice(0, 1), 'no secret signs before all replicas have it');
    t.end();
  },
);

test('a stolen key or secret is replaced at once', { skip }, (t) => {
  const folder = secretFolder(t);
  folder.run('Secrets', 0, '2026-11-21');
  folder.run('Secrets', 2);
  const before = keysOf(scratch(t), folder.applied());
  writeFileSync(join(folder.path, 'latchkey/database-url~'), 'what an editor leaves');
  for (const n of [4, 5]) folder.run(NEW_KEYS, n, '2026-12-01');
  folder.run('Secrets', 2);
  const { signing, refresh } = keysOf(scratch(t), folder.applied());
  t.strictSame([signing.length, refresh.length], [1, 1]);
  t.notSame(signing, before.signing);
  t.notSame(refresh, before.refresh);
  t.end();
});

test('a new signing key has the highest name, and the date in it counts', { skip }, (t) => {
  const folder = secretFolder(t);
  folder.run('Secrets', 0, '2026-11-21');
  folder.run('Secrets', 2);
  const step = steps(t, folder);
  let { signing: before } = keysOf(scratch(t), folder.applied());
  t.equal(before.length, 1);
  t.strictSame(step(0, '2026-11-21').signing, before, 'a key is never overwritten');
  for (const day of ['2026-12-01', '2027-01-10']) {
    const { signing } = step(0, day);
    t.strictSame(signing.slice(1), before);
    t.equal(signing.length, before.length + 1);
    before = signing;
  }
  const keys = join(scratch(t), 'keys');
  writeSecret(keys, folder.applied()['latchkey-signing-keys'] ?? {});
  const days = readSigningKeys(keys).map(({ createdAt }) => new Date(createdAt).toISOString());
  t.strictSame(
    days,
    ['2027-01-10', '2026-12-01', '2026-11-21'].map((day) => `${day}T00:00:00.000Z`),
  );
  t.end();
});

/** The ids of a pod's keys. The first one signs. */
function keysOf(folder: string, secrets: Secrets): { signing: string[]; refresh: string[] } {
  const keys = join(folder, 'keys');
  writeSecret(keys, secrets['latchkey-signing-keys'] ?? {});
  const refresh = parseRefreshSecrets(secrets.latchkey?.['refresh-token-secret'] ?? '');
  return { signing: readSigningKeys(keys).map(({ kid }) => kid), refresh: refresh.map(({ kid }) => kid) };
}
