import { Session } from 'node:inspector/promises';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const DIST = fileURLToPath(new URL('../../', import.meta.url));

/** The files of src/ with a function that ran during the work, by source name. Lua is not seen. */
export async function executedFiles(work: () => Promise<unknown>): Promise<string[]> {
  const session = new Session();
  session.connect();
  try {
    await session.post('Profiler.enable');
    await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
    await work();
    const { result } = await session.post('Profiler.takePreciseCoverage');
    return result
      .filter(({ url, functions }) => url.startsWith(`file://${DIST}src/`) && functions.some(hasRun))
      .map(({ url }) => relative(DIST, fileURLToPath(url)).replace(/\.js$/, '.ts'))
      .sort();
  } finally {
    session.disconnect();
  }
}

/** A module's own code has no name; it runs when the file is loaded. */
function hasRun({
  functionName,
  ranges,
}: {
  functionName: string;
  ranges: { count: number; startOffset: number }[];
}) {
  return !(functionName === '' && ranges[0]?.startOffset === 0) && ranges.some(({ count }) => count > 0);
}
