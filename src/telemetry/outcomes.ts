/** The values of the labels of infrastructure metrics; see also domain/metrics/outcomes.ts. */

export const STORE_OPERATIONS = [
  'now',
  'rotate',
  'check',
  'prepare_put',
  'put',
  'put_user',
  'revoke',
  'last_uses',
  'feed',
  'reserve',
  'release',
] as const;
export type StoreOperation = (typeof STORE_OPERATIONS)[number];

export const STORE_FAILURES = ['not_ready', 'timeout', 'connection', 'reply'] as const;
export type StoreFailure = (typeof STORE_FAILURES)[number];

export const STATEMENTS = ['select', 'insert', 'update', 'delete', 'with', 'transaction', 'other'] as const;
export type Statement = (typeof STATEMENTS)[number];

export const POSTGRES_FAILURES = [
  'connect',
  'connection',
  'timeout',
  'conflict',
  'resources',
  'other',
] as const;
export type PostgresFailure = (typeof POSTGRES_FAILURES)[number];

export const TASKS = [
  'write check',
  'clock check',
  'installation',
  'write-behind',
  'revocation sweep',
  'tombstone renewal',
  'user sweep',
  'user renewal',
  'reuse queue',
  'client reload',
  'wanted mails',
  'revocation feed',
  'feed readers',
  'hash costs',
] as const;
export type Task = (typeof TASKS)[number];
