import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import pg from 'pg';
import { PrismaPg } from '@prisma/adapter-pg';
import { bindMigrationAwareSqlAdapterFactory, ColumnTypeEnum } from '@prisma/driver-adapter-utils';
import type * as Bindings from '@prisma/schema-engine-wasm/schema_engine_bg';
import { migrationNames, packageRoot, shippedMigrations } from '../../src/infra/postgres/migration-files.ts';

// Prisma's schema engine as WebAssembly, for development: it compares a database with schema.prisma. Its native build
// is downloaded from outside npm, which locked-down build machines refuse. The package is internal to Prisma: no other
// file may import it, and a test compares its version with the one that Prisma itself pins.

const SPECIFIER = '@prisma/schema-engine-wasm/schema_engine_bg';

type SchemaEngine = Bindings.SchemaEngine;

/** All tables are managed by migrations. */
export const EVERYTHING: Bindings.SchemaFilter = { externalTables: [], externalEnums: [] };

// Node's types include WebAssembly only together with a browser's.
type Exports = { __wbindgen_start: () => void };
declare const WebAssembly: {
  Module: new (bytes: Uint8Array) => object;
  Instance: new (module: object, imports: Record<string, unknown>) => { exports: Exports };
};

let loaded: Promise<typeof Bindings> | undefined;

async function load(): Promise<typeof Bindings> {
  const bindings = (await import(SPECIFIER)) as typeof Bindings;
  // A fault of the engine ends the process. This logs the fault.
  const registry = { set_message: (message: string) => process.stderr.write(`${message}\n`) };
  Object.assign(globalThis, { PRISMA_WASM_PANIC_REGISTRY: registry });
  const file = join(createRequire(import.meta.url).resolve(SPECIFIER), '../schema_engine_bg.wasm');
  const module = new WebAssembly.Module(readFileSync(file));
  const instance = new WebAssembly.Instance(module, { './schema_engine_bg.js': withoutTimers(bindings) });
  bindings.__wbg_set_wasm(instance.exports);
  instance.exports.__wbindgen_start();
  return bindings;
}

/** The engine never clears its 10 s timeouts. They do not keep the process alive here. */
function withoutTimers(bindings: object): Record<string, unknown> {
  const setTimer = (callback: () => void, ms: number) => setTimeout(callback, ms >>> 0).unref();
  return Object.fromEntries(
    Object.entries(bindings).map(([name, binding]: [string, unknown]) => [
      name,
      name.startsWith('__wbg_setTimeout_') ? setTimer : binding,
    ]),
  );
}

type Query = (config: pg.QueryConfig) => Promise<{ fields: { dataTypeID: number }[] }>;
const [CHAR, TEXT] = [18, 25];

/** The adapter does not know PostgreSQL's internal type "char", which its catalogs use often. */
function catalogPool(connectionString: string): pg.Pool {
  // One connection: the engine relies on a single session.
  const pool = new pg.Pool({ connectionString, max: 1 });
  const send = pool.query.bind(pool) as Query;
  const query: Query = async (config) => {
    const result = await send(config);
    for (const field of result.fields) if (field.dataTypeID === CHAR) field.dataTypeID = TEXT;
    return result;
  };
  return Object.assign(pool, { query });
}

/**
 * The engine reads a constraint's kind as a character, and panics on the text that the adapter returns
 * (github.com/prisma/orm/issues/29635).
 */
class CatalogAdapterFactory extends PrismaPg {
  override async connect() {
    const adapter = await super.connect();
    const queryRaw = adapter.queryRaw.bind(adapter);
    adapter.queryRaw = async (query) => {
      const result = await queryRaw(query);
      const i = result.columnNames.indexOf('constraint_type');
      if (i !== -1) result.columnTypes[i] = ColumnTypeEnum.Character;
      return result;
    };
    return adapter;
  }
}

/** Runs `use` with an engine on the database. */
export async function withSchemaEngine<T>(
  databaseUrl: string,
  use: (engine: SchemaEngine) => Promise<T>,
): Promise<T> {
  const { SchemaEngine } = await (loaded ??= load());
  const pool = catalogPool(databaseUrl);
  try {
    const engine = await SchemaEngine.new(
      { datamodels: schemaFiles().map((file) => [file.path, file.content]) },
      () => undefined,
      bindMigrationAwareSqlAdapterFactory(new CatalogAdapterFactory(pool)),
    );
    return await use(engine);
  } finally {
    await pool.end();
  }
}

/** The SQL that migrates the database's schema to schema.prisma; '' if they are equal. */
export async function schemaDifference(databaseUrl: string): Promise<string> {
  const { exitCode, stdout } = await withSchemaEngine(databaseUrl, (engine) =>
    engine.diff({
      from: { tag: 'schemaDatasource', files: schemaFiles(), configDir: packageRoot() },
      to: { tag: 'schemaDatamodel', files: schemaFiles() },
      script: true,
      exitCode: true,
      filters: EVERYTHING,
    }),
  );
  return exitCode === 0 ? '' : (stdout ?? '');
}

/** A folder of migrations in the engine's format. */
export function migrationList(folder = shippedMigrations()): Bindings.MigrationList {
  return {
    baseDir: folder,
    shadowDbInitScript: '',
    lockfile: { path: 'migration_lock.toml', content: null },
    migrationDirectories: migrationNames(folder).map((name) => ({
      path: name,
      migrationFile: {
        path: 'migration.sql',
        content: { tag: 'ok', value: readFileSync(join(folder, name, 'migration.sql'), 'utf8') },
      },
    })),
  };
}

function schemaFiles(): Bindings.SchemaContainer[] {
  const path = 'prisma/schema.prisma';
  return [{ path, content: readFileSync(join(packageRoot(), path), 'utf8') }];
}
