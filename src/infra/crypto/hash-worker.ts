import { createHash } from 'node:crypto';
import { parentPort, workerData } from 'node:worker_threads';
import hashWasm from 'hash-wasm';
import type { WorkerTask } from './derive-key.ts';

/** One computation of a thread: see derive-key.ts. */
async function compute({ recipe, password, length, moreBlocks }: WorkerTask): Promise<Uint8Array> {
  if (recipe.kind === 'bcrypt') {
    const { rounds: costFactor, salt } = recipe;
    const key = await hashWasm.bcrypt({ password, salt, costFactor, outputType: 'binary' });
    return key.subarray(0, length);
  }
  if (recipe.kind === 'phpass') {
    const digest = (first: Uint8Array, second: Uint8Array) =>
      createHash('md5').update(first).update(second).digest();
    let key = digest(recipe.salt, password);
    // Digested in one go, since the time of a digest is that of its blocks.
    const rest = createHash('md5');
    const more = Buffer.alloc(64 * moreBlocks);
    for (let left = 2 ** recipe.rounds; left > 0; left--) {
      key = digest(key, password);
      if (moreBlocks > 0) rest.update(more);
    }
    return key.subarray(0, length);
  }
  const { variant, memory: memorySize, passes: iterations, lanes: parallelism, salt } = recipe;
  return hashWasm[variant]({
    password,
    salt,
    memorySize,
    iterations,
    parallelism,
    hashLength: length,
    outputType: 'binary',
  });
}

parentPort?.postMessage(await compute(workerData as WorkerTask));
