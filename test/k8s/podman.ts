import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import type { Containers } from '../support/container.ts';
import { allOf, workloadsOf, type Container, type Manifest, type PodSpec } from './kinds.ts';
import { makeMounts, type Mounts } from './mounts.ts';
import type { Secrets } from './secrets.ts';

export interface Cluster {
  /** Starts the pod of a Deployment, Job or CronJob of the manifests, with other `args` if given. @returns its container. */
  start(kind: string, name: string, args?: string[]): Promise<string>;
  /** Changes Secrets. */
  put(secrets: Secrets): void;
}

interface Options {
  image: string;
  manifests: Manifest[];
  secrets: Secrets;
  /** Variables that differ from the manifests' on this machine. */
  env: Record<string, string>;
  /** In the name of everything it starts, so that two runs do not collide. */
  prefix: string;
}

/**
 * Emulates a cluster by `podman play kube` on this machine's network. It mounts Secrets itself, because podman 4.3
 * leaves them in base64 and never updates them.
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
    async start(kind, name, args) {
      const file = join(folder, `${started.length}.yaml`);
      const documents = [...configMaps(options), pod(kind, name, options, mounts, args)];
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

/** The rendered pod, with another image, network and Secrets. */
function pod(
  kind: string,
  name: string,
  { manifests, image, prefix }: Options,
  mounts: Mounts,
  args?: string[],
): object {
  const found = workloadsOf(manifests).find((it) => it.kind === kind && it.name === name);
  if (!found) throw new Error(`there is no ${kind} ${name}`);
  const { metadata, spec } = found.template;
  const local: PodSpec = {
    ...spec,
    hostNetwork: true,
    containers: spec.containers.map((container) => ({
      ...localContainer(container, image),
      ...(args && { args }),
    })),
    volumes: (spec.volumes ?? []).map(({ secret, ...volume }) =>
      secret ? { ...volume, hostPath: { path: mounts.folderOf(secret) } } : volume,
    ),
  };
  if (kind !== 'Deployment') {
    const unique = [prefix + name, ...(args ?? [])].join('-');
    return { apiVersion: 'v1', kind: 'Pod', metadata: { ...metadata, name: unique }, spec: local };
  }
  const deployment = manifests.find((it) => it.kind === kind && it.metadata.name === name);
  return {
    ...deployment,
    metadata: { name: prefix + name },
    spec: { ...(deployment as { spec?: object }).spec, template: { metadata, spec: local } },
  };
}

/** Removes ports and probes: podman publishes ports even on the host network, and probes with curl in the image. */
function localContainer(container: Container, image: string): Container {
  const copy: Container = { ...container, image, imagePullPolicy: 'Never' };
  delete copy.ports;
  delete copy.startupProbe;
  delete copy.livenessProbe;
  delete copy.readinessProbe;
  return copy;
}
