const tasks: (() => void)[] = [];

/**
 * Runs a task once this turn of the event loop has read all its sockets. A task that another one adds runs in the same
 * turn, after the others.
 */
export function atEndOfTurn(task: () => void): void {
  if (tasks.push(task) === 1) setImmediate(runAll);
}

function runAll(): void {
  let done = 0;
  try {
    // The list may grow meanwhile.
    for (const task of tasks) {
      done++;
      task();
    }
  } finally {
    tasks.splice(0, done);
    // A task has thrown: the others still run.
    if (tasks.length > 0) setImmediate(runAll);
  }
}
