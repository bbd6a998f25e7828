import { readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import type { Test } from 'tap';
import { readBlocks } from '../support/markdown.ts';
import type { Manifest } from './kinds.ts';
import { render, ROOT, scratch } from './render.ts';

const HEADING = 'The agent beside a service';

/** The README's kustomization of a service with the agent, rendered together with more resources. */
export function renderWithAgent(t: Test, more: object[] = []): Manifest[] {
  const [kustomization = '', service = ''] = readBlocks(readFileSync(join(ROOT, 'k8s/README.md'), 'utf8'))
    .filter(({ section, language }) => section === HEADING && language === 'yaml')
    .map(({ text }) => text);
  const dir = scratch(t);
  const component = relative(dir, join(ROOT, 'k8s/components/agent'));
  const local = kustomization.replace(/https:\/\/\S+\/\/k8s\/components\/agent\?ref=\S+/, component);
  writeFileSync(join(dir, 'kustomization.yaml'), local);
  const resources = [service, ...more.map((it) => JSON.stringify(it))];
  writeFileSync(join(dir, 'orders.yaml'), resources.join('\n---\n'));
  return render(relative(ROOT, dir));
}
