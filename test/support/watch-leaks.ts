import tap from 'tap';
import { leakWatch } from './leaks/leak-watch.ts';

/**
 * Importing this turns the leak watch on for the whole test file. It searches the logs, metrics and spans of the
 * instances started by app.ts and service.ts for the secrets that they received or issued. The file fails if one is
 * found, and also if there was nothing to search.
 */
leakWatch.turnOn();
tap.teardown(() => {
  const problems = leakWatch.problems();
  if (problems.length > 0) throw new Error(problems.join('\n'));
});
