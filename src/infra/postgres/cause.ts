import { networkCause, StoreError, type Cause } from '../../telemetry/store-cause.ts';

const ROLES = 'docs/operating.md, "Two roles"';

/** What to do, by SQLSTATE; the first match counts. Other states say nothing about the server. */
const REMEDIES: readonly [RegExp, string][] = [
  [/^28/, 'check user and password in DATABASE_URL, and pg_hba.conf of the server'],
  [/^3D000/, 'check the name of the database in DATABASE_URL, or create it'],
  [/^(42P01|42703|3F000)/, 'the schema is older than the code: run `npm run migrate`'],
  [/^42501/, `grant the role of DATABASE_URL what it needs (${ROLES})`],
  [/^53300/, 'lower DATABASE_POOL, raise max_connections, or use PgBouncer'],
  [/^(53|58)/, 'look at the disk and the memory of the server, and at its log'],
  [/^(25006|57P04)/, 'point DATABASE_URL at the primary'],
  [/^57P/, 'wait: the server starts or stops; if it stays like this, look at its log'],
  [/^08/, 'check the network and the server, or its pooler'],
];

/** The pool has no free connection. That says nothing about the server. */
const BUSY = 'timeout exceeded when trying to connect';

/** Why PostgreSQL cannot be used, from an error of pg; null if the error says nothing about the server. */
export function causeOf(error: unknown): Cause | null {
  if (!(error instanceof Error) || error.message === BUSY) return null;
  const { code = '', message } = error as NodeJS.ErrnoException;
  const [, todo] = REMEDIES.find(([state]) => code.length === 5 && state.test(code)) ?? [];
  if (todo !== undefined) return { code, reason: message, todo };
  if (/^[0-9A-Z]{5}$/.test(code) && 'severity' in error) return null;
  return networkCause(error, 'DATABASE_URL', 'DATABASE_CA');
}

interface Wrapped {
  code?: unknown;
  originalCode?: unknown;
  kind?: unknown;
  message?: unknown;
  reason?: unknown;
  originalMessage?: unknown;
}

/** Prisma gives every failure of a raw statement one name and one code. @param wrapped the error and its causes. */
export function asStoreError(wrapped: readonly Wrapped[], error: unknown): StoreError {
  const text = (value: unknown) => (typeof value === 'string' ? value : undefined);
  const driver = wrapped.find(({ originalCode, kind, code }) => {
    return text(originalCode) ?? text(kind) ?? (/^P\d{4}$/.test(text(code) ?? 'P0000') ? undefined : code);
  });
  const code = text(driver?.originalCode) ?? text(driver?.code) ?? text(driver?.kind) ?? 'unknown';
  const message = text(driver?.originalMessage) ?? text(driver?.reason) ?? text(driver?.message) ?? '';
  return new StoreError('PostgreSQL', code, message, error);
}
