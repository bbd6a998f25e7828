// `node --import=…/record.mjs` with TEST_COVERAGE=FOLDER: writes to the folder which functions of dist/src and of
// dist/packages/*/src this process, or a thread of it, called, when it exits. NODE_V8_COVERAGE would write every package as
// well, some megabytes for each of a thousand processes.
import { writeFileSync } from 'node:fs';
import { Session } from 'node:inspector';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { threadId } from 'node:worker_threads';

const SOURCES = /^file:.*\/dist\/(?=(?:src|packages\/[^/]+\/src)\/)/;

const session = new Session();
session.connect();
session.post('Profiler.enable');
session.post('Profiler.startPreciseCoverage', { callCount: false, detailed: false });

process.on('exit', () => {
  session.post('Profiler.takePreciseCoverage', (error, coverage) => {
    if (error) throw new Error(error.message);
    const lines = coverage.result.flatMap(linesOf);
    const file = join(process.env.TEST_COVERAGE, `${process.pid}-${threadId}-${Date.now()}.txt`);
    if (lines.length > 0) writeFileSync(file, `${lines.join('\n')}\n`);
  });
});

/**
 * One line for a function, with tabs between: folder of the build, file, number of its first character, 1 if it was
 * called, name. The function of a module has no name.
 */
function linesOf({ url, functions }) {
  const [build] = SOURCES.exec(url) ?? [];
  if (build === undefined) return [];
  const folder = fileURLToPath(build);
  const file = url.slice(build.length);
  return functions.map(({ functionName, ranges: [{ startOffset, count }] }) =>
    [folder, file, startOffset, count > 0 ? 1 : 0, functionName].join('\t'),
  );
}
