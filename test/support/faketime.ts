import { spawnSync } from 'node:child_process';

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
