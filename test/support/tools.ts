import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { leaveOut } from './environment.ts';

/**
 * The external programs that suites start; the rest runs on Node alone. Name and Debian package. `.ci/run` installs
 * them; test/ci/tools.test.ts compares the lists.
 */
export const TOOLS: Readonly<Record<string, { package: string }>> = {
  // Its package pulls in Apache itself.
  apache2: { package: 'libapache2-mod-oauth2' },
  bash: { package: 'bash' },
  buildah: { package: 'buildah' },
  caddy: { package: 'caddy' },
  // podman keeps a pod's namespaces with it.
  catatonit: { package: 'catatonit' },
  // With playwright-core, which brings none.
  chromium: { package: 'chromium' },
  curl: { package: 'curl' },
  env: { package: 'coreutils' },
  faketime: { package: 'faketime' },
  git: { package: 'git' },
  // 1.27 or later. Debian 12's is older, and .ci/run then takes one from npm.
  kubectl: { package: 'kubernetes-client' },
  mmdebstrap: { package: 'mmdebstrap' },
  nginx: { package: 'nginx' },
  // It comes with Node.
  npm: { package: 'npm' },
  openssl: { package: 'openssl' },
  pgbouncer: { package: 'pgbouncer' },
  podman: { package: 'podman' },
  prometheus: { package: 'prometheus' },
  promtool: { package: 'prometheus' },
  'redis-sentinel': { package: 'redis-sentinel' },
  'redis-server': { package: 'redis-server' },
  runc: { package: 'runc' },
  sleep: { package: 'coreutils' },
  tar: { package: 'tar' },
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
