import pg from 'pg';
import { ColumnTypeEnum, DriverAdapterError, isDriverAdapterError } from '@prisma/driver-adapter-utils';
import type { SqlResultSet } from '@prisma/driver-adapter-utils';

// What the schema engine and @prisma/adapter-pg misunderstand about each other and PostgreSQL.

const typeChar = 18;
const typeName = 19;
const typeText = 25;

type Fields = { fields?: { dataTypeID: number }[] };

/** The adapter does not know PostgreSQL's internal types "char" and name, of which its catalogs are full. */
function asText<T>(result: T): T {
  for (const { fields } of [result].flat() as Fields[]) {
    for (const field of fields ?? []) {
      if (field.dataTypeID === typeChar || field.dataTypeID === typeName) field.dataTypeID = typeText;
    }
  }
  return result;
}

type LooseQuery = (config: unknown, values?: unknown, callback?: unknown) => unknown;
type Callback = (error: unknown, result: unknown) => void;

/** A pg.Client whose results the adapter can read, also those from the system catalogs. */
export class CatalogClient extends pg.Client {
  override query = ((config: unknown, values?: unknown, callback?: unknown): unknown => {
    const send = pg.Client.prototype.query.bind(this) as LooseQuery;
    const done = typeof values === 'function' ? values : callback;
    const args = typeof values === 'function' ? undefined : values;
    if (typeof done === 'function') {
      const back = done as Callback;
      return send(config, args, (error: unknown, result: unknown) => {
        back(error, error ? result : asText(result));
      });
    }
    const sent = send(config, args);
    return sent instanceof Promise ? sent.then(asText) : sent;
  }) as typeof pg.Client.prototype.query;
}

/**
 * The engine reads a constraint's kind as a character, and panics on the text that the adapter makes of it:
 * with any CHECK constraint, and since PostgreSQL 18 with any NOT NULL (github.com/prisma/orm/issues/29635).
 */
export function withCharacters(result: SqlResultSet): SqlResultSet {
  const columnTypes = result.columnTypes.map((type, i) =>
    result.columnNames[i] === 'constraint_type' ? ColumnTypeEnum.Character : type,
  );
  return { ...result, columnTypes };
}

/**
 * Throws the error of a failed script again in PostgreSQL's words, with its code.
 * The engine and the adapter translate the codes they know into vague words of their own ("Null constraint
 * failed: ()"), so the code travels inside the message.
 */
export function inPostgresWords(error: unknown): never {
  if (!isDriverAdapterError(error) || error.cause.originalMessage === undefined) throw error;
  const { originalCode = '', originalMessage } = error.cause;
  throw new DriverAdapterError({
    kind: 'postgres',
    code: '',
    severity: 'ERROR',
    message: `${originalMessage} (${originalCode})`,
    detail: undefined,
    column: undefined,
    hint: undefined,
  });
}
