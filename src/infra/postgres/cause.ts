import { networkCause, StoreError, type Cause } from '../../telemetry/store-cause.ts';
import { failureOfState, isState } from './failures.ts';
import { SettingsError } from './settings-error.ts';

/** The pool has no free connection. That says nothing about the server. */
const BUSY = 'timeout exceeded when trying to connect';

/** Why PostgreSQL cannot be used, from an error of pg; null if the error says nothing about the server. */
export function causeOf(error: unknown): Cause | null {
  if (!(error instanceof Error) || error.message === BUSY) return null;
  if (error instanceof SettingsError) return { code: error.code, reason: error.reason, todo: error.todo };
  const { code = '', message } = error as NodeJS.ErrnoException;
  const todo = failureOfState(code)?.todo;
  if (todo !== undefined) return { code, reason: message, todo };
  if (isState(code) && 'severity' in error) return null;
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
