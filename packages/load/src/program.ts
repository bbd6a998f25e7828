import { readFileSync } from 'node:fs';
import { readArguments, USAGE, type ListSeeded, type RunArguments } from './arguments.ts';
import { makeLiveView } from './live-view.ts';
import { LoadError } from './load-error.ts';
import { runLoadTest, type StartOwnService } from './load-test.ts';

/** What Latchkey's repository can besides. */
export interface Repository {
  usage: string;
  listSeeded: ListSeeded;
  startOwn: StartOwnService;
}

/**
 * Runs the scenario that the words name. The first SIGINT or SIGTERM ends it early, with its report.
 * @returns the exit code: 1 if a promise was broken or nothing was shown, 2 if the words are wrong.
 */
export function runProgram(
  words: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
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
    const options = optionsOrUsage(words, env, repository);
    if (!options) return 2;
    const stopping = new AbortController();
    for (const signal of ['SIGINT', 'SIGTERM'])
      process.once(signal, () => {
        stopping.abort();
      });
    const view = makeLiveView(process.stdout);
    const { signal } = stopping;
    const failures = await runLoadTest(options, { view, signal, startOwn: repository?.startOwn });
    for (const failure of failures) process.stderr.write(`failed: ${failure}\n`);
    return failures.length > 0 ? 1 : 0;
  });
}

function versionOf(): string {
  const file = new URL(import.meta.resolve('@latchkey/load/package.json'));
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}

function optionsOrUsage(
  words: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  repository?: Repository,
): RunArguments | null {
  try {
    return readArguments(words, env, repository?.listSeeded);
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
