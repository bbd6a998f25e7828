/** Characters between the brackets. */
const WIDTH = 30;

interface Output {
  isTTY?: boolean;
  write(text: string): unknown;
}

/** A line on a terminal that shows how far the work has got; silent elsewhere. */
export interface ProgressBar {
  /** @param part of the work that is done, 0 to 1. */
  show(part: number, text: string): void;
  /** Removes it, before other text or at the end. */
  clear(): void;
}

export function makeProgressBar(isWanted: boolean, output: Output = process.stderr): ProgressBar {
  const isShown = isWanted && output.isTTY === true;
  const write = (text: string) => {
    if (isShown) output.write(`\r\x1b[K${text}`);
  };
  return {
    show(part, text) {
      const filled = Math.round(Math.min(part, 1) * WIDTH);
      const percent = Math.floor(Math.min(part, 1) * 100);
      write(`[${'#'.repeat(filled).padEnd(WIDTH, '-')}] ${percent} %  ${text}`);
    },
    clear() {
      write('');
    },
  };
}
