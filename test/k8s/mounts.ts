import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { only, type Manifest, type PodSpec, type Volume } from './kinds.ts';
import type { Secrets } from './secrets.ts';

/** Folders with Secrets, mounted like the kubelet does. */
export interface Mounts {
  /** The folder of a mounted Secret. */
  folderOf(secret: NonNullable<Volume['secret']>): string;
  /** Changes the Secrets in the cluster and in all their mounts. */
  put(secrets: Secrets): void;
}

export function makeMounts(root: string, secrets: Secrets): Mounts {
  const mounted = new Map<string, NonNullable<Volume['secret']>>();
  let current = secrets;
  let version = 0;

  function fill(folder: string, { secretName, items }: NonNullable<Volume['secret']>): void {
    const files = current[secretName];
    if (!files) throw new Error(`there is no Secret ${secretName}`);
    const shown = items?.map(({ key, path }): [string, string] => [path, files[key] ?? '']);
    swap(folder, Object.fromEntries(shown ?? Object.entries(files)), `..v${version}`);
  }

  return {
    folderOf(secret) {
      const folder = join(root, [secret.secretName, ...(secret.items ?? []).map(({ key }) => key)].join('-'));
      if (!mounted.has(folder)) {
        mkdirSync(folder);
        mounted.set(folder, secret);
        fill(folder, secret);
      }
      return folder;
    },
    put(secrets) {
      current = secrets;
      version++;
      for (const [folder, secret] of mounted) fill(folder, secret);
    },
  };
}

/** The variables of a pod's container. Paths in its mounted Secrets, but not in ConfigMaps, lead to the mounts here. */
export function variablesIn(
  mounts: Mounts,
  { containers: [container], volumes = [] }: PodSpec,
  manifests: Manifest[],
): Record<string, string> {
  const { env = [], envFrom = [], volumeMounts = [] } = container ?? {};
  const shared = envFrom.map(({ configMapRef }) => only(manifests, 'ConfigMap', configMapRef?.name).data);
  const own = env.map(({ name, value = '' }): [string, string] => {
    if (!value.startsWith('/')) return [name, value];
    const mount = volumeMounts.find(({ mountPath }) => `${value}/`.startsWith(`${mountPath}/`));
    const { secret, configMap } = volumes.find((volume) => volume.name === mount?.name) ?? {};
    if (configMap) return [name, value];
    if (!mount || !secret) throw new Error(`nothing is mounted at ${value}`);
    return [name, value.replace(mount.mountPath, mounts.folderOf(secret))];
  });
  return Object.assign({}, ...shared, Object.fromEntries(own)) as Record<string, string>;
}

/** `..data` is a link to the folder of the files. Renaming the link changes all files at once. */
function swap(folder: string, files: Record<string, string>, name: string): void {
  mkdirSync(join(folder, name));
  for (const [file, content] of Object.entries(files)) {
    const path = join(folder, name, file);
    writeFileSync(path, content);
    // The kubelet would set their group to fsGroup.
    chmodSync(path, 0o444);
  }
  for (const path of [folder, join(folder, name)]) chmodSync(path, 0o755);
  symlinkSync(name, join(folder, '..data_tmp'));
  renameSync(join(folder, '..data_tmp'), join(folder, '..data'));
  for (const file of readdirSync(folder)) {
    if (!file.startsWith('..') && !(file in files)) unlinkSync(join(folder, file));
  }
  for (const file of Object.keys(files)) {
    if (!existsSync(join(folder, file))) symlinkSync(join('..data', file), join(folder, file));
  }
}
