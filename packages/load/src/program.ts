import { readFileSync } from 'node:fs';
import { readArguments, readMergeArguments, USAGE, type ListSeeded } from './arguments.ts';
import type { Environment } from './environment.ts';
import { makeLiveView } from './live-view.ts';
import { LoadError } from './load-error.ts';
import { runLoadTest, type StartOwnService } from './load-test.ts';
import { mergeReports, readReports } from './merge.ts';
import { makeFolder, writeReport } from './write-report.ts';

/** What Latchkey's repository can besides. */
export interface Repository {
  usage: string;
  listSeeded: ListSeeded;
  startOwn: StartOwnService;
}

/**
 * Runs the scenario that the words name, or merges reports. The first SIGINT or SIGTERM ends a run early, with its report.
 * @returns the exit code: 1 if a promise was broken or nothing was shown, 2 if the words are wrong.
 */
export function runProgram(
  words: readonly string[],
  env: Environment,
  repository?: Repository,
): Promise<number> {
  return withMessages(async () => {
    const shown = words.includes('--help')
      ? `${repository?.usage ?? ''}${USAGE}`
      : words.includes('--version') && `${versionOf()}\n`;
    if (shown) {
      process.stdout.write(shown);
      return 0;
    }
    const view = makeLiveView(process.stdout);
    if (words[0] === 'merge') {
      const options = argumentsOrUsage(() => readMergeArguments(words.slice(1)), repository);
      if (!options) return 2;
      const { reports, thresholds, report } = options;
      const merged = mergeReports(readReports(reports), thresholds);
      makeFolder(report);
      return codeOf(writeReport(merged, report, view));
    }
    const options = argumentsOrUsage(() => readArguments(words, env, repository?.listSeeded), repository);
    if (!options) return 2;
    const stopping = new AbortController();
    for (const signal of ['SIGINT', 'SIGTERM'])
      process.once(signal, () => {
        stopping.abort();
      });
    const { signal } = stopping;
    return codeOf(await runLoadTest(options, { view, signal, startOwn: repository?.startOwn }));
  });
}

/** Says why a run failed. @returns the exit code */
function codeOf(failures: readonly string[]): number {
  for (const failure of failures) process.stderr.write(`failed: ${failure}\n`);
  return failures.length > 0 ? 1 : 0;
}

function versionOf(): string {
  const file = new URL(import.meta.resolve('@latchkey/load/package.json'));
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}

function argumentsOrUsage<Arguments>(read: () => Arguments, repository?: Repository): Arguments | null {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof LoadError)) throw error;
    process.stderr.write(`${error.message}\n\n${repository?.usage ?? ''}${USAGE}`);
    return null;
  }
}

/** An error that a person can mend is one line without a stack. @returns the exit code */
export async function withMessages(work: () => Promise<number>): Promise<number> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Error && /^(Load|Config|EmbeddedDatabase|Start)Error$/.test(error.name)))
      throw error;
    process.stderr.write(`${error.message}\n`);
    return 1;
  }
}
