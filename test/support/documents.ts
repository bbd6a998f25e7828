import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export const ROOT = new URL('../../../', import.meta.url).pathname;

/** The README and the pages that it links to, in the order in which a newcomer reads. */
export const DOCUMENTS = [
  'README.md',
  'tutorial',
  'packages/verifier/README.md',
  'packages/agent/README.md',
  'packages/client/README.md',
  'packages/load/README.md',
  'api',
  'services',
  'errors',
  'development',
  'integrating/node',
  'integrating/any-language',
  'integrating/testing',
  'integrating/proxies',
  'clients',
  'integrating/browsers-and-apps',
  'integrating/feed',
  'workload-identity',
  'installing',
  'keys',
  'operating',
  'importing',
  'configuration',
  'observability',
  'threat-model',
  'asvs',
  'audit',
  'second-factor',
  'runbook',
  'leaks',
  'enforcement',
  'rotation',
  'migrations',
  'upgrading',
  'releasing',
  'glossary',
  'dependencies',
  'performance',
  'README',
  'CONTRIBUTING.md',
  'SECURITY.md',
].map((name) => (name.endsWith('.md') ? name : `docs/${name}.md`));

export function readDocument(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}

/** Every document of the project, decisions and the changelog among them. */
export function allDocuments(): string[] {
  const below = (folder: string) =>
    readdirSync(join(ROOT, folder), { recursive: true })
      .map((name) => join(folder, String(name)))
      .filter((name) => name.endsWith('.md'));
  const atTop = readdirSync(ROOT).filter((name) => name.endsWith('.md'));
  const packages = ['verifier', 'agent', 'client', 'load'].map((name) => `packages/${name}/README.md`);
  return [...atTop, ...packages, ...below('docs'), ...below('examples'), ...below('k8s'), ...below('charts')];
}

/** Why a shell block may be marked as not run, and what such a block must contain. */
export const NOT_RUN: Readonly<Record<string, RegExp>> = {
  'needs buildah': /^buildah /m,
  'needs Caddy': /^caddy validate /m,
  'needs Docker': /^docker |localhost:8080/m,
  'needs Kubernetes': /^kubectl /m,
  'needs an audit trail': /"\$AUDIT"/,
  'needs a host of your own': /^useradd /m,
  'needs a leaked token': /^read -rs token$/m,
  'needs a release': /SHA256SUMS|^podman load /m,
  'needs minutes': /^npm ci && npm test$/m,
  'needs your stores': /\.internal\b|\b10\.0\.0\.\d/,
};
