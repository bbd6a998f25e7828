import { createCipheriv, createHash, createHmac, pbkdf2, scrypt } from 'node:crypto';
import { promisify } from 'node:util';
import { Worker } from 'node:worker_threads';
import {
  BCRYPT_LENGTH,
  memoryOfRecipe,
  phpassBlocks,
  type BcryptInput,
  type Recipe,
} from './foreign-hash.ts';

const pbkdf2Async = promisify(pbkdf2);
const scryptAsync = promisify<string, Uint8Array, number, object, Buffer>(scrypt);

/** What the worker computes. */
export interface WorkerTask {
  recipe: Extract<Recipe, { kind: 'argon2' | 'bcrypt' | 'phpass' }>;
  password: Uint8Array;
  /** Bytes. */
  length: number;
  /** Of MD5, to compute in each round of phpass besides. */
  moreBlocks: number;
}

/**
 * Computes the key of a password, off the event loop. Always called through the bulkhead.
 * @param length of the key, in bytes.
 * @param blocks of MD5 that a round of phpass computes at least (`mostPhpassBlocks`).
 */
export async function deriveKey(
  recipe: Recipe,
  password: string,
  length: number,
  blocks: number,
): Promise<Uint8Array> {
  switch (recipe.kind) {
    case 'pbkdf2':
      return pbkdf2Async(password, recipe.salt, recipe.iterations, length, recipe.digest);
    case 'scrypt': {
      const { logN, r, p, salt, signerKey } = recipe;
      // OpenSSL counts table, blocks and two blocks besides.
      const maxmem = 4 * memoryOfRecipe(recipe);
      const key = await scryptAsync(password, salt, signerKey ? AES_KEY : length, {
        N: 2 ** logN,
        r,
        p,
        maxmem,
      });
      return signerKey ? encrypted(signerKey, key) : key;
    }
    case 'salted':
      return createHash(recipe.digest).update(password).update(recipe.salt).digest().subarray(0, length);
    case 'bcrypt':
      return inWorker({ recipe, password: bcryptInput(recipe.input, password), length, moreBlocks: 0 });
    case 'argon2':
    case 'phpass': {
      const text = Buffer.from(password);
      return inWorker({ recipe, password: text, length, moreBlocks: blocks - phpassBlocks(text.length) });
    }
  }
}

function bcryptInput(kind: BcryptInput, password: string): Buffer {
  switch (kind) {
    case 'password':
      return Buffer.from(password).subarray(0, BCRYPT_LENGTH);
    case 'sha256':
      return Buffer.from(createHash('sha256').update(password).digest('hex'));
    case 'wordpress':
      return Buffer.from(createHmac('sha384', 'wp-sha384').update(password).digest('base64'));
  }
}

/** Bytes. */
const AES_KEY = 32;

function encrypted(text: Uint8Array, key: Uint8Array): Buffer {
  return createCipheriv('aes-256-ctr', key, Buffer.alloc(16)).update(text);
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
