// Sends SIGTERM to this process when npm has ended.
//
// npm runs a script through `sh -c` and sends signals to that shell. dash dies of the signal without passing it on, and
// the script would go on as an orphan. `exec` in package.json would replace the shell, but Windows' shell has no `exec`.
// So a script that npm started watches its parent: when the shell dies, another process becomes the parent. bash
// replaces itself with the script, so there npm is the parent.

import { clearInterval, setInterval } from 'node:timers';

/** Poll interval in milliseconds. */
const INTERVAL = 500;

export function endWithParent() {
  // A process that npm did not start may outlive its parent, for example `node scripts/start.mjs &`.
  if (process.env.npm_lifecycle_event === undefined) return;
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    // On Windows a parent's id never changes, so this ends the process only where SIGTERM can be handled.
    process.kill(process.pid, 'SIGTERM');
  }, INTERVAL);
  timer.unref();
}
