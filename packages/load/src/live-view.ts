/** The part of a terminal or a file that the view writes to. */
export interface Screen {
  isTTY?: boolean;
  columns?: number;
  write(text: string): unknown;
}

export interface LiveView {
  /** A line that stays. */
  say: (line: string) => void;
  /** A bar that replaces itself; on a plain output, a line for each quarter. */
  progress: (what: string, done: number, total: number) => void;
  /** Shows the run until the returned function is called. @param look gives what is to be seen now. */
  follow(look: () => Picture): () => void;
}

/** The present state of a run. */
export interface Picture {
  /** For a terminal: they replace those before. */
  lines: readonly string[];
  /** For a plain output. */
  plain: string;
}

/** Milliseconds between two pictures, and between two plain lines. */
const PICTURE = 500;
const PLAIN = 5000;

export function makeLiveView(screen: Screen): LiveView {
  let drawn = 0;
  let quarter = -1;
  const wipe = () => {
    if (drawn > 0) screen.write(`\x1b[${drawn}A\x1b[J`);
    drawn = 0;
  };
  const draw = (lines: readonly string[]) => {
    wipe();
    // Some terminals report no width, or 0.
    const width = Math.max(screen.columns ?? 0, 0) || 80;
    screen.write(lines.map((line) => `${line.slice(0, width - 1)}\n`).join(''));
    drawn = lines.length;
  };
  const say = (line: string) => {
    wipe();
    screen.write(`${line}\n`);
  };

  return {
    say,
    progress(what, done, total) {
      if (screen.isTTY) {
        draw([`${what} ${bar(done, total)} ${done} of ${total}`]);
        if (done === total) drawn = 0;
        return;
      }
      const now = Math.floor((4 * done) / total);
      if (now !== quarter) say(`${what}: ${done} of ${total}`);
      quarter = now === 4 ? -1 : now;
    },
    follow(look) {
      const timer = setInterval(
        () => {
          const { lines, plain } = look();
          if (screen.isTTY) draw(lines);
          else say(plain);
        },
        screen.isTTY ? PICTURE : PLAIN,
      );
      return () => {
        clearInterval(timer);
        wipe();
      };
    },
  };
}

const BAR = 30;

/** A bar whose filled part is this share. */
export function bar(done: number, total: number): string {
  const filled = total === 0 ? 0 : Math.round((BAR * done) / total);
  return '█'.repeat(filled) + '░'.repeat(BAR - filled);
}
