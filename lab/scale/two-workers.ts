/** The unchanged service as two workers of one parent, which gives each new connection to one of them. */
import cluster from 'node:cluster';
import { once } from 'node:events';

if (cluster.isPrimary) {
  const workers = [cluster.fork(), cluster.fork()];
  process.once('SIGTERM', () => {
    for (const worker of workers) worker.process.kill('SIGTERM');
  });
  await Promise.all(workers.map((worker) => once(worker, 'exit')));
} else await import('../../src/server.ts');
