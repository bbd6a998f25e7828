import { spawnSync } from 'node:child_process';
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { testFolder } from './folder.ts';

/** The environment of a process whose wall clock, and no other, is this many seconds ahead (negative: behind). */
export function clockAhead(seconds: number): Record<string, string> {
  // Only the wrapper's environment is used: the wrapper itself would sit between the test and the process it signals.
  const { stdout } = spawnSync('faketime', ['-f', `${seconds < 0 ? '' : '+'}${seconds}s`, 'env'], {
    encoding: 'utf8',
  });
  const variables = stdout.split('\n').filter((line) => /^(LD_PRELOAD|FAKETIME)=/.test(line));
  if (variables.length !== 2) throw new Error(`faketime set other variables than expected: ${stdout}`);
  const entries = variables.map((line) => [
    line.slice(0, line.indexOf('=')),
    line.slice(line.indexOf('=') + 1),
  ]);
  return { ...(Object.fromEntries(entries) as Record<string, string>), FAKETIME_DONT_FAKE_MONOTONIC: '1' };
}

/** A clock that the test moves while the process runs. */
export interface MovableClock {
  /** The process's environment. */
  env: Record<string, string>;
  /** Sets how far it is ahead from now on. */
  ahead(seconds: number): void;
}

export function movableClock(t: Test): MovableClock {
  const folder = testFolder(t);
  const file = join(folder, 'offset');
  const ahead = (seconds: number) => {
    // Renamed, so that the process never reads a half-written file.
    writeFileSync(`${file}.new`, `${seconds < 0 ? '' : '+'}${seconds}s\n`);
    renameSync(`${file}.new`, file);
  };
  ahead(0);
  const { LD_PRELOAD = '', FAKETIME_DONT_FAKE_MONOTONIC = '' } = clockAhead(0);
  const env = {
    FAKETIME_DONT_FAKE_MONOTONIC,
    // Uses the C library's malloc: jemalloc reads the time before faketime is ready.
    LD_PRELOAD: `${LD_PRELOAD} libc.so.6`,
    FAKETIME_TIMESTAMP_FILE: file,
    FAKETIME_NO_CACHE: '1',
  };
  return { env, ahead };
}
