import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import type { Containers } from '../support/container.ts';
import { allOf, workloadsOf, type Manifest, type PodSpec } from './kinds.ts';
import type { Secrets } from './secrets.ts';

export interface Cluster {
  /** Starts a Deployment, or what a Job or CronJob would start, of the manifests. @returns its container. */
  start(kind: string, name: string): Promise<string>;
  /** The folder on this machine in which the files of a Secret are mounted. */
  folderOf(secret: string): Promise<string>;
}

interface Options {
  image: string;
  manifests: Manifest[];
  secrets: Secrets;
  /** Variables that differ from the manifests' on this machine. */
  env: Record<string, string>;
  /** Of all that is started, so that it gets in nobody's way. */
  prefix: string;
}

/** What stands in for a cluster: `podman play kube`, on this machine's network. It leaves nothing behind. */
export function podmanCluster(t: Test, engine: Containers, options: Options): Cluster {
  const { prefix, secrets, manifests } = options;
  const folder = mkdtempSync(join(tmpdir(), 'latchkey-kube-'));
  const started: string[] = [];
  const must = async (...args: string[]) => {
    const { code, output } = await engine.podman(...args);
    if (code !== 0) throw new Error(output);
    return output;
  };
  t.teardown(async () => {
    for (const file of started) await engine.podman('play', 'kube', '--down', file);
    for (const name of Object.keys(secrets)) {
      await engine.podman('volume', 'rm', '--force', prefix + name);
      await engine.podman('secret', 'rm', prefix + name);
    }
    rmSync(folder, { recursive: true, force: true });
  });

  return {
    async start(kind, name) {
      const file = join(folder, `${started.length}.yaml`);
      // Secrets are kept by podman from the first time on.
      const around =
        started.length === 0 ? [...secretManifests(options), ...configMaps(options)] : configMaps(options);
      const documents = [...around, pod(manifests, kind, name, options)];
      writeFileSync(file, documents.map((it) => JSON.stringify(it)).join('\n---\n'));
      started.push(file);
      const output = await must('play', 'kube', '--start', file);
      const id = /^Containers?:\n([0-9a-f]{64})$/m.exec(output)?.[1];
      if (id === undefined) throw new Error(output);
      return id;
    },
    folderOf: async (secret) =>
      (await must('volume', 'inspect', '--format', '{{.Mountpoint}}', prefix + secret)).trim(),
  };
}

function secretManifests({ secrets, prefix }: Options): object[] {
  return Object.entries(secrets).map(([name, stringData]) => ({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: prefix + name },
    stringData,
  }));
}

function configMaps({ manifests, env }: Options): object[] {
  return allOf(manifests, 'ConfigMap').map((it) => ({ ...it, data: { ...it.data, ...env } }));
}

/** As it was rendered, but for the image, the network and the names of its Secrets. */
function pod(manifests: Manifest[], kind: string, name: string, { image, prefix }: Options): object {
  const found = workloadsOf(manifests).find((it) => it.kind === kind && it.name === name);
  if (!found) throw new Error(`there is no ${kind} ${name}`);
  const { metadata, spec } = found.template;
  const local: PodSpec = {
    ...spec,
    hostNetwork: true,
    containers: spec.containers.map((container) => ({ ...container, image, imagePullPolicy: 'Never' })),
    volumes: (spec.volumes ?? []).map((volume) =>
      volume.secret
        ? { ...volume, secret: { ...volume.secret, secretName: prefix + volume.secret.secretName } }
        : volume,
    ),
  };
  if (kind !== 'Deployment') {
    return { apiVersion: 'v1', kind: 'Pod', metadata: { ...metadata, name: prefix + name }, spec: local };
  }
  const deployment = manifests.find((it) => it.kind === kind && it.metadata.name === name);
  return {
    ...deployment,
    metadata: { name: prefix + name },
    spec: { ...(deployment as { spec?: object }).spec, template: { metadata, spec: local } },
  };
}
