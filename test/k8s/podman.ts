import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import type { Containers } from '../support/container.ts';
import { allOf, workloadsOf, type Container, type Manifest, type PodSpec } from './kinds.ts';
import { makeMounts, type Mounts } from './mounts.ts';
import type { Secrets } from './secrets.ts';

export interface Cluster {
  /** Starts a Deployment, or what a Job or CronJob would start, of the manifests. @returns its container. */
  start(kind: string, name: string): Promise<string>;
  /** Changes Secrets. */
  put(secrets: Secrets): void;
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

/**
 * What stands in for a cluster: `podman play kube`, on this machine's network. Secrets are mounted here: podman 4.3 leaves
 * them in base64, and never changes them.
 */
export function podmanCluster(t: Test, engine: Containers, options: Options): Cluster {
  const folder = mkdtempSync(join(tmpdir(), 'latchkey-kube-'));
  chmodSync(folder, 0o755);
  const mounts = makeMounts(folder, options.secrets);
  const started: string[] = [];
  t.teardown(async () => {
    for (const file of started) await engine.podman('play', 'kube', '--down', file);
    rmSync(folder, { recursive: true, force: true });
  });

  return {
    async start(kind, name) {
      const file = join(folder, `${started.length}.yaml`);
      const documents = [...configMaps(options), pod(kind, name, options, mounts)];
      writeFileSync(file, documents.map((it) => JSON.stringify(it)).join('\n---\n'));
      started.push(file);
      const { output } = await engine.podman('play', 'kube', file);
      const id = /^Containers?:\n([0-9a-f]{64})$/m.exec(output)?.[1];
      if (id === undefined) throw new Error(output);
      return id;
    },
    put: (secrets) => {
      mounts.put(secrets);
    },
  };
}

function configMaps({ manifests, env }: Options): object[] {
  const ours = allOf(manifests, 'ConfigMap').filter(({ metadata }) => !metadata.labels?.grafana_dashboard);
  return ours.map((it) => ({ ...it, data: { ...it.data, ...env } }));
}

/** As it was rendered, but for the image, the network and its Secrets. */
function pod(kind: string, name: string, { manifests, image, prefix }: Options, mounts: Mounts): object {
  const found = workloadsOf(manifests).find((it) => it.kind === kind && it.name === name);
  if (!found) throw new Error(`there is no ${kind} ${name}`);
  const { metadata, spec } = found.template;
  const local: PodSpec = {
    ...spec,
    hostNetwork: true,
    containers: spec.containers.map((container) => localContainer(container, image)),
    volumes: (spec.volumes ?? []).map(({ secret, ...volume }) =>
      secret ? { ...volume, hostPath: { path: mounts.folderOf(secret) } } : volume,
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

/** Podman publishes ports also of a pod on the machine's network, and would probe with a curl inside the image. */
function localContainer(container: Container, image: string): Container {
  const copy: Container = { ...container, image, imagePullPolicy: 'Never' };
  delete copy.ports;
  delete copy.startupProbe;
  delete copy.livenessProbe;
  delete copy.readinessProbe;
  return copy;
}
