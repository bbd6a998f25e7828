import { spawnSync } from 'node:child_process';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';

/** The environment of a process whose wall clock is this many seconds ahead (negative: behind); others are untouched. */
export function clockAhead(seconds: number): Record<string, string> {
  // The wrapper itself would stand between us and the process that we signal: only its environment is taken.
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

/** A clock that a test moves while the process runs. */
export interface MovableClock {
  /** The process's environment. */
  env: Record<string, string>;
  /** How far it is ahead from now on. */
  ahead(seconds: number): void;
}

export function movableClock(t: Test): MovableClock {
  const folder = mkdtempSync(join(tmpdir(), 'lk-clock-'));
  t.teardown(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  const file = join(folder, 'offset');
  const ahead = (seconds: number) => {
    // Renamed: the process may read it at any moment, and may not find half of it.
    writeFileSync(`${file}.new`, `${seconds < 0 ? '' : '+'}${seconds}s\n`);
    renameSync(`${file}.new`, file);
  };
  ahead(0);
  const { LD_PRELOAD = '', FAKETIME_DONT_FAKE_MONOTONIC = '' } = clockAhead(0);
  const env = {
    FAKETIME_DONT_FAKE_MONOTONIC,
    // The C library's own malloc before jemalloc, which asks for the time before faketime can tell it.
    LD_PRELOAD: `${LD_PRELOAD} libc.so.6`,
    FAKETIME_TIMESTAMP_FILE: file,
    FAKETIME_NO_CACHE: '1',
  };
  return { env, ahead };
}
