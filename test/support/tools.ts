import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { leaveOut } from './environment.ts';

/**
 * The external programs that suites start; the rest runs on Node alone. Name and Debian package. `.ci/run` installs
 * them, but for those of suites that run only when asked for by name; test/ci/tools.test.ts compares the lists.
 */
export const TOOLS: Readonly<Record<string, { package: string; optIn?: true }>> = {
  bash: { package: 'bash' },
  buildah: { package: 'buildah', optIn: true },
  curl: { package: 'curl' },
  env: { package: 'coreutils' },
  faketime: { package: 'faketime' },
  git: { package: 'git' },
  kubectl: { package: 'kubernetes-client' },
  mmdebstrap: { package: 'mmdebstrap', optIn: true },
  nginx: { package: 'nginx' },
  openssl: { package: 'openssl' },
  pgbouncer: { package: 'pgbouncer' },
  podman: { package: 'podman', optIn: true },
  'redis-sentinel': { package: 'redis-sentinel' },
  'redis-server': { package: 'redis-server' },
  runc: { package: 'runc', optIn: true },
  sleep: { package: 'coreutils' },
};

/** Why a suite that starts these cannot run here; false where it can. */
export function toolsMissing(...names: string[]): false | string {
  const missing = names.filter((name) => !isInstalled(name));
  if (missing.length === 0) return false;
  const packages = missing.map((name) => TOOLS[name]?.package ?? name).join(' ');
  return leaveOut(`${missing.join(', ')} cannot be found (apt-get install ${packages})`);
}

function isInstalled(name: string): boolean {
  return (process.env.PATH ?? '').split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
