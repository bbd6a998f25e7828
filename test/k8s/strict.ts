import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { typeErrors } from '../support/type-errors.ts';
import type { Manifest } from './kinds.ts';
import { ROOT, scratch } from './render.ts';

/** The packages with the types of Kubernetes' API, the Prometheus operator and the Gateway API. */
const PACKAGES = [
  'kubernetes-models',
  '@kubernetes-models/prometheus-operator',
  '@kubernetes-models/gateway-api',
];

/**
 * The problems of each manifest by Kubernetes' own types, one list per manifest. tsc refuses unknown fields in
 * literals. The packages' schemas refuse values out of bounds, but ignore unknown fields.
 */
export async function strictly(t: Test, manifests: Manifest[]): Promise<string[][]> {
  const problems: string[][] = manifests.map(() => []);
  const lines: string[] = [];
  const startsAt: number[] = [];
  for (const [i, manifest] of manifests.entries()) {
    const module = moduleOf(manifest);
    startsAt.push(lines.length);
    if (module === undefined) {
      problems[i]?.push(`there is no ${manifest.apiVersion} ${manifest.kind}`);
      continue;
    }
    problems[i]?.push(...(await schemaProblems(module, manifest)));
    const literal = JSON.stringify(manifest, null, 1);
    lines.push(...`export const it${i}: import('${module}').I${manifest.kind} = ${literal};`.split('\n'));
  }
  const folder = scratch(t);
  writeFileSync(join(folder, 'manifests.ts'), lines.join('\n'));
  for (const { line, message } of typeErrors(folder, ['manifests.ts'], [])) {
    const i = startsAt.findLastIndex((first) => first < line);
    problems[i]?.push(message);
  }
  return problems;
}

function moduleOf({ apiVersion, kind }: Manifest): string | undefined {
  return PACKAGES.map((name) => `${name}/${apiVersion}/${kind}`).find((path) =>
    existsSync(join(ROOT, 'node_modules', `${path}.d.ts`)),
  );
}

interface Model {
  validate(): void;
}

async function schemaProblems(module: string, manifest: Manifest): Promise<string[]> {
  const { [manifest.kind]: Model } = (await import(module)) as Record<string, new (data: Manifest) => Model>;
  if (!Model) throw new Error(`${module} has no ${manifest.kind}`);
  try {
    new Model(manifest).validate();
    return [];
  } catch (error) {
    return [(error as Error).message];
  }
}
