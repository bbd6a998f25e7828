import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { readBlocks } from '../support/markdown.ts';
import { toolsMissing } from '../support/tools.ts';
import type { Manifest } from './kinds.ts';
import { COMPONENTS, OVERLAYS, readManifests, renderAll, ROOT } from './render.ts';
import { strictly } from './strict.ts';

const skip = toolsMissing('kubectl');

test(
  'every overlay and component, and the Gateway API’s objects in documents, match their types',
  { skip },
  async (t) => {
    // agent.test.ts checks the one for other services.
    t.strictSame(folders('k8s/components'), ['agent', ...COMPONENTS], 'every component is checked');
    t.strictSame(folders('k8s/overlays'), OVERLAYS, 'every overlay is checked');
    const groups = [...renderAll(t), ['documents', documentedExamples()] as const];
    const all = groups.flatMap(([name, manifests]) => manifests.map((manifest) => ({ name, manifest })));
    const problems = await strictly(
      t,
      all.map(({ manifest }) => manifest),
    );
    for (const [i, { name, manifest }] of all.entries()) {
      t.strictSame(problems[i], [], `${name}: ${manifest.kind} ${manifest.metadata.name}`);
    }
  },
);

function folders(path: string): string[] {
  return readdirSync(join(ROOT, path)).sort();
}

/** The objects of the Gateway API that documents show. No package here knows those of its implementations. */
function documentedExamples(): Manifest[] {
  const blocks = ['k8s/README.md', 'docs/integrating/proxies.md'].flatMap((file) =>
    readBlocks(readFileSync(join(ROOT, file), 'utf8')).filter(({ language }) => language === 'yaml'),
  );
  const examples = blocks
    .flatMap(({ text }) => readManifests(text))
    .filter(({ apiVersion }: Partial<Manifest>) => apiVersion?.startsWith('gateway.networking.k8s.io/'));
  if (examples.length === 0) throw new Error('the documents show no object of the Gateway API');
  return examples;
}
