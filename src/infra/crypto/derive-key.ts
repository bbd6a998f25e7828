import { pbkdf2, scrypt } from 'node:crypto';
import { promisify } from 'node:util';
import { Worker } from 'node:worker_threads';
import { BCRYPT_LENGTH, memoryOfRecipe, type Recipe } from './foreign-hash.ts';

const pbkdf2Async = promisify(pbkdf2);
const scryptAsync = promisify<string, Uint8Array, number, object, Buffer>(scrypt);

/** What the worker computes. */
export interface WorkerTask {
  recipe: Extract<Recipe, { kind: 'argon2' | 'bcrypt' }>;
  password: Uint8Array;
  /** Bytes. */
  length: number;
}

/**
 * Computes the key of a password, off the event loop. Always called through the bulkhead.
 * @param length of the key, in bytes.
 */
export async function deriveKey(recipe: Recipe, password: string, length: number): Promise<Uint8Array> {
  switch (recipe.kind) {
    case 'pbkdf2':
      return pbkdf2Async(password, recipe.salt, recipe.iterations, length, recipe.digest);
    case 'scrypt': {
      const { logN, r, p, salt } = recipe;
      // OpenSSL counts table, blocks and two blocks besides.
      const maxmem = 4 * memoryOfRecipe(recipe);
      return scryptAsync(password, salt, length, { N: 2 ** logN, r, p, maxmem });
    }
    case 'bcrypt':
      return inWorker({ recipe, password: Buffer.from(password).subarray(0, BCRYPT_LENGTH), length });
    case 'argon2':
      return inWorker({ recipe, password: Buffer.from(password), length });
  }
}

/**
 * Starts a thread for one key. WebAssembly's memory never shrinks: only the thread's end gives it back, and the place
 * in the bulkhead is held until then. A start takes some 40 ms, less than any hash worth importing.
 */
function inWorker(workerData: WorkerTask): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL('./hash-worker.js', import.meta.url), { workerData });
    let key: Uint8Array | null = null;
    worker.once('message', (computed: Uint8Array) => {
      key = computed;
    });
    worker.once('error', reject);
    worker.once('exit', (code) => {
      if (key) resolve(key);
      else reject(new Error(`the thread that computes a password hash ended with code ${code}`));
    });
  });
}
