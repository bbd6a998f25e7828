const tasks: (() => void)[] = [];

/**
 * Runs a task once this turn of the event loop has read all its sockets. A task that another one adds runs in the same
 * turn, after the others.
 */
export function atEndOfTurn(task: () => void): void {
  if (tasks.push(task) === 1) setImmediate(runAll);
}

function runAll(): void {
  // The list may grow meanwhile.
  for (const task of tasks) task();
  tasks.length = 0;
}
