// `npm start`: builds if needed, then serves in this process, so that signals reach it. `npm start -- --seed
// FILE` is the same with SEED_FILE.
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { endWithParent } from './end-with-parent.mjs';

try {
  // build.mjs reads the first.
  const options = { service: { type: 'boolean' }, seed: { type: 'string' } };
  const { seed } = parseArgs({ options }).values;
  // npm runs this in the project's folder, whatever the caller's is.
  if (seed !== undefined) process.env.SEED_FILE = resolve(process.env.INIT_CWD ?? '.', seed);
} catch (error) {
  process.stderr.write(`${error.message}\nuse npm start, or npm start -- --seed FILE\n`);
  process.exit(2);
}
endWithParent();
await import('./build.mjs');
await import('../dist/src/server.js');
