import { startEmbeddedPostgres } from '../../src/infra/embedded/postgres.ts';

// A process of its own with an embedded PostgreSQL in the folder of its argument, for tests that kill it.
// Prints the result of the start as one line of JSON, ignores Ctrl-C, and stops when its stdin ends.

/** The line that the process prints: the URL, or the error. */
export type HostReport = { url: string } | { error: { name: string; message: string } };

process.on('SIGINT', () => undefined);
const quiet = () => undefined;
const [dataDir = ''] = process.argv.slice(2);
try {
  const { url, stop } = await startEmbeddedPostgres({ dataDir, log: { debug: quiet, warn: quiet } });
  report({ url });
  process.stdin.resume().once('end', () => void stop());
} catch (error) {
  const { name, message } = error as Error;
  report({ error: { name, message } });
  process.stdin.destroy();
}

function report(said: HostReport): void {
  process.stdout.write(`${JSON.stringify(said)}\n`);
}
