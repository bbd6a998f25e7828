import { createInterface } from 'node:readline';
import { UsageError } from './arguments.ts';

interface Terminal {
  input: NodeJS.ReadableStream & { isTTY?: boolean };
  output: NodeJS.WritableStream;
}

/** Standard output stays free for the result. */
const TERMINAL: Terminal = { input: process.stdin, output: process.stderr };

/** @throws UsageError if a command that must be confirmed has neither --yes nor a terminal on which to ask. */
export function requireConfirmation(command: string, yes: boolean, { input } = TERMINAL): void {
  if (!yes && !input.isTTY)
    throw new UsageError(`there is no terminal on which to confirm ${command}: give --yes`);
}

/** Asks on the terminal. Every answer but `y` and `yes` means no, and so does its end. */
export function confirm(question: string, { input, output } = TERMINAL): Promise<boolean> {
  const lines = createInterface({ input, output });
  return new Promise((resolve) => {
    lines.on('close', () => {
      resolve(false);
    });
    lines.question(`${question} [y/N] `, (answer) => {
      resolve(/^y(es)?$/i.test(answer.trim()));
      lines.close();
    });
  });
}
