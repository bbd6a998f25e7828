import { readFileSync } from 'node:fs';
import type { Build } from '../telemetry/build.ts';

/** As scripts/build.mjs wrote it. */
export function readBuild(): Build {
  const read = (path: string) => readFileSync(new URL(path, import.meta.url), 'utf8');
  const { version } = JSON.parse(read('../../../package.json')) as { version: string };
  return { version, revision: read('../revision').trim() };
}
