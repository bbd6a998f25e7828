/**
 * `npm run load -- SCENARIO`: a load test against a service that it starts, or against one at a URL (docs/load-testing.md).
 * `npm run load -- seed --users N`: fills the service's database with users that the kit knows.
 * Exit code 1 if a promise was broken or nothing was shown, 2 if the arguments are wrong.
 */
import { LoadError } from './prepare.ts';
import { readArguments, USAGE } from './arguments.ts';
import { makeLiveView } from './live-view.ts';
import { runLoadTest } from './load-test.ts';
import { runSeed } from './run-seed.ts';

const view = makeLiveView(process.stdout);
const stopping = new AbortController();
// Ctrl-C ends the run early. The report is still written.
for (const signal of ['SIGINT', 'SIGTERM'])
  process.once(signal, () => {
    stopping.abort();
  });

function argumentsOrExit() {
  try {
    return readArguments(process.argv.slice(2), process.env);
  } catch (error) {
    if (!(error instanceof LoadError)) throw error;
    process.stderr.write(`${error.message}\n\n${USAGE}`);
    process.exitCode = 2;
    return null;
  }
}

try {
  const given = argumentsOrExit();
  if (given?.command === 'seed') await runSeed(given, process.env, view);
  else if (given) {
    const failures = await runLoadTest(given, view, stopping.signal);
    for (const failure of failures) process.stderr.write(`failed: ${failure}\n`);
    if (failures.length > 0) process.exitCode = 1;
  }
} catch (error) {
  if (!(error instanceof Error && /^(Load|Config|EmbeddedDatabase|Start)Error$/.test(error.name)))
    throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
