// Preloaded into a server: it stops when its standard input ends, so also if its test was killed or ran out of time.

process.stdin
  .resume()
  .once('end', () => process.kill(process.pid, 'SIGTERM'))
  .once('error', () => undefined);
// The server ends by its own rules meanwhile.
process.stdin.unref();
