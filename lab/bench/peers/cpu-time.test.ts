import { test } from 'tap';
import { cpuSecondsIn } from './cpu-time.ts';

test('the CPU time of a process is that of user and system together', (t) => {
  const numbers = Array.from({ length: 49 }, (_, i) => i + 4).join(' ');
  // The fields of proc(5) from 4 on hold their own numbers: utime is 14, stime is 15.
  for (const name of ['glewlwyd', 'a name) R (1'])
    t.equal(cpuSecondsIn(`123 (${name}) S ${numbers}\n`), 0.29, name);
  t.end();
});
