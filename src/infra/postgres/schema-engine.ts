import { EventEmitter, once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { bindMigrationAwareSqlAdapterFactory } from '@prisma/driver-adapter-utils';
import type * as Bindings from '@prisma/schema-engine-wasm/schema_engine_bg';
import { MigrationConnections, type Target } from './migration-connection.ts';
import { MigrationError, reasonOf } from './migration-error.ts';
import { readIfThere, readMigrations, readSchema } from './migration-files.ts';

// Prisma's schema engine as WebAssembly. Its native build is downloaded from outside npm, which locked-down
// build machines and clusters refuse. The package is internal to Prisma: no other file may import it, and a
// test compares its version with the one that Prisma itself pins.

const specifier = '@prisma/schema-engine-wasm/schema_engine_bg';

export type SchemaEngine = Bindings.SchemaEngine;

/** Nothing in the database is managed by somebody else. */
export const everything: Bindings.SchemaFilter = { externalTables: [], externalEnums: [] };

// Node's types know WebAssembly only along with those of a browser.
type Exports = { __wbindgen_start: () => void };
declare const WebAssembly: {
  Module: new (bytes: Uint8Array) => object;
  Instance: new (module: object, imports: Record<string, unknown>) => { exports: Exports };
};

/** The engine's last words, when it hits a fault of its own. */
const panics = new EventEmitter<{ panic: [message: string] }>();

let loaded: Promise<typeof Bindings> | undefined;

async function load(): Promise<typeof Bindings> {
  const bindings = (await import(specifier)) as typeof Bindings;
  const registry = { set_message: (message: string) => panics.emit('panic', message) };
  Object.assign(globalThis, { PRISMA_WASM_PANIC_REGISTRY: registry });
  const file = join(createRequire(import.meta.url).resolve(specifier), '../schema_engine_bg.wasm');
  const module = new WebAssembly.Module(readFileSync(file));
  const instance = new WebAssembly.Instance(module, { './schema_engine_bg.js': mended(bindings) });
  bindings.__wbg_set_wasm(instance.exports);
  instance.exports.__wbindgen_start();
  return bindings;
}

type Import = (...args: unknown[]) => unknown;

/** What the engine calls of JavaScript, with two of its habits mended. */
function mended(bindings: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(bindings).map(([name, binding]: [string, unknown]) => {
      // Its 10 s time-outs run on when it is done: unref'd, they do not keep a finished command alive.
      if (name.startsWith('__wbg_setTimeout_')) {
        return [name, (callback: () => void, ms: number) => setTimeout(callback, ms >>> 0).unref()];
      }
      // A panic is thrown in a microtask, where it would end the process. It is reported above.
      if (name.startsWith('__wbg_queueMicrotask_')) {
        return [name, (task: unknown) => (binding as Import)(isTask(task) ? surviving(task) : task)];
      }
      return [name, binding];
    }),
  );
}

function isTask(value: unknown): value is () => void {
  return typeof value === 'function';
}

function surviving(task: () => void): () => void {
  return () => {
    try {
      task();
    } catch (error) {
      panics.emit('panic', reasonOf(error));
    }
  };
}

/**
 * Runs `use` with an engine on the database, and closes its connections.
 * Rejects with what the engine or `use` rejects with.
 */
export async function withSchemaEngine<T>(
  target: Target,
  use: (engine: SchemaEngine) => Promise<T>,
): Promise<T> {
  const { SchemaEngine } = await (loaded ??= load());
  const connections = new MigrationConnections(target);
  const settled = new AbortController();
  // A panicking engine settles no promise, and would be waited for without end.
  const panicked = once(panics, 'panic', { signal: settled.signal }).then(([message]: unknown[]) => {
    throw new MigrationError(`the schema engine has a fault: ${String(message)}`);
  });
  panicked.catch(() => undefined);
  try {
    const engine = await SchemaEngine.new(
      { datamodels: schemaFiles().map((file) => [file.path, file.content]) },
      () => undefined,
      bindMigrationAwareSqlAdapterFactory(connections),
    );
    return await Promise.race([use(engine), panicked]);
  } finally {
    settled.abort();
    await connections.close();
  }
}

/** schema.prisma in the engine's terms. */
export function schemaFiles(): Bindings.SchemaContainer[] {
  return [{ path: 'prisma/schema.prisma', content: readSchema() }];
}

/** A migrations folder in the engine's terms. */
export function migrationList(folder: string): Bindings.MigrationList {
  return {
    baseDir: folder,
    shadowDbInitScript: '',
    lockfile: {
      path: 'migration_lock.toml',
      content: readIfThere(join(folder, 'migration_lock.toml')) ?? null,
    },
    migrationDirectories: readMigrations(folder).map(({ name, sql }) => ({
      path: name,
      migrationFile: {
        path: 'migration.sql',
        content: sql === undefined ? { tag: 'error', value: 'missing' } : { tag: 'ok', value: sql },
      },
    })),
  };
}
