import { statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { readSigningKeys } from '../../src/infra/crypto/key-ring.ts';
import { parseRefreshSecrets } from '../../src/infra/crypto/keys.ts';
import { toolsMissing } from '../support/tools.ts';
import { workloadsOf } from './kinds.ts';
import { renderWith, scratch } from './render.ts';
import { madeSecrets, secretFolder, writeSecret, type Secrets } from './secrets.ts';

const skip = toolsMissing('kubectl', 'bash', 'openssl');

test('the README’s commands make every Secret and file that is mounted', { skip }, (t) => {
  const folder = secretFolder(t);
  folder.run('Secrets', 0);
  t.equal(statSync(folder.path).mode & 0o077, 0, 'nobody else may look into the folder');
  folder.run('Secrets', 1);
  folder.run('Connections');
  folder.run('Secrets', 2);
  const secrets = folder.applied();

  const manifests = renderWith(t, 'k8s/base', ['postgres', 'pgbouncer']);
  for (const { name, template } of workloadsOf(manifests)) {
    const { containers, volumes = [] } = template.spec;
    for (const { secret } of volumes) {
      if (!secret) continue;
      const files = Object.keys(secrets[secret.secretName] ?? {});
      t.not(files.length, 0, `${name}: Secret ${secret.secretName}`);
      for (const { key } of secret.items ?? []) t.ok(files.includes(key), `${name}: ${key}`);
    }
    for (const { env = [], volumeMounts = [] } of containers) {
      for (const { value = '' } of env.filter((it) => it.name.endsWith('_FILE'))) {
        const mount = volumeMounts.find(({ mountPath }) => value.startsWith(`${mountPath}/`));
        const volume = volumes.find((it) => it.name === mount?.name);
        const file = value.slice((mount?.mountPath.length ?? 0) + 1);
        t.ok(secrets[volume?.secret?.secretName ?? '']?.[file], `${name}: ${value}`);
      }
    }
  }
  t.end();
});

test('the trial database and who uses it have one password', { skip }, (t) => {
  const secrets = madeSecrets(t);
  const { password } = new URL(secrets.latchkey?.['database-url'] ?? '');
  t.match(password, /^[0-9a-f]{48}$/);
  t.equal(secrets.postgres?.password, password);
  t.end();
});

test('new keys verify before they sign, and old ones verify until they go', { skip }, (t) => {
  const folder = secretFolder(t);
  folder.run('Secrets', 0);
  const apply = () => {
    folder.run('Secrets', 2);
    return keysOf(scratch(t), folder.applied());
  };
  const before = apply();
  folder.run('New keys, without a restart', 0);
  const known = apply();
  folder.run('New keys, without a restart', 1);
  const signing = apply();
  folder.run('New keys, without a restart', 2);
  const after = apply();

  for (const kind of ['signing', 'refresh'] as const) {
    const [old] = before[kind];
    t.equal(before[kind].length, 1);
    t.equal(known[kind].length, 2);
    t.equal(known[kind][0], old, `the old ${kind} key signs while the next becomes known`);
    t.strictSame(
      signing[kind],
      [...known[kind]].reverse(),
      `the new ${kind} key signs, and the old verifies`,
    );
  }
  t.strictSame(after.refresh, signing.refresh.slice(0, 1));
  t.end();
});

/** The ids of the keys that a pod sees; the first signs. */
function keysOf(folder: string, secrets: Secrets): { signing: string[]; refresh: string[] } {
  const keys = join(folder, 'keys');
  writeSecret(keys, secrets['latchkey-signing-keys'] ?? {});
  const refresh = parseRefreshSecrets(secrets.latchkey?.['refresh-token-secret'] ?? '');
  return { signing: readSigningKeys(keys).map(({ kid }) => kid), refresh: refresh.map(({ kid }) => kid) };
}
