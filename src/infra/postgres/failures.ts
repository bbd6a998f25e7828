import type { PostgresFailure } from '../../telemetry/outcomes.ts';

/** What an error of PostgreSQL means. */
interface Failure {
  /** For the metrics; null if the statement got its answer. */
  kind: PostgresFailure | null;
  /** Requests get a 503; else the error is a bug of ours. */
  isOutage: boolean;
  /** The server may take connections soon: `migrate` waits for it. */
  isAway: boolean;
  /** What an operator should do; undefined if the error says nothing about the server. */
  todo: string | undefined;
}

type Row = [states: RegExp, kind: Failure['kind'], effect: 'none' | 'outage' | 'away', todo?: string];

const WAIT = 'wait: the server starts or stops; if it stays like this, look at its log';

/** By SQLSTATE; the first match counts. */
const STATES: readonly Row[] = [
  // A violated constraint.
  [/^23/, null, 'none'],
  // The network or a pooler; a server that starts, stops or is full.
  [/^08/, 'connection', 'away', 'check the network and the server, or its pooler'],
  [/^57P0[123]/, 'connection', 'away', WAIT],
  [/^53300/, 'resources', 'away', 'lower DATABASE_POOL, raise max_connections, or use PgBouncer'],
  [/^(53|58)/, 'resources', 'outage', 'look at the disk and the memory of the server, and at its log'],
  // A standby, or a database that was dropped.
  [/^(25006|57P04)/, 'connection', 'outage', 'point DATABASE_URL at the primary'],
  [/^57P/, 'connection', 'outage', WAIT],
  // A statement or a lock that took too long; any other intervention; a transaction over the server's limits.
  [/^(57014|55P03)/, 'timeout', 'outage'],
  [/^57/, 'connection', 'outage'],
  [/^25P0[34]/, 'connection', 'outage'],
  // Settings of the role or the database (session-settings.ts).
  [/^F0/, 'other', 'outage'],
  // Deadlocks and serialization failures.
  [/^40/, 'conflict', 'outage'],
  // A refused user, a missing right; an unknown database, schema, table or column.
  [/^28/, 'other', 'outage', 'check user and password in DATABASE_URL, and pg_hba.conf of the server'],
  [
    /^42501/,
    'other',
    'outage',
    'grant the role of DATABASE_URL what it needs (docs/operating.md, "Two roles")',
  ],
  [/^3D000/, 'other', 'outage', 'check the name of the database in DATABASE_URL, or create it'],
  [/^(42P01|42703|3F000)/, 'other', 'outage', 'the schema is older than the code: run `npm run migrate`'],
];

/** @returns undefined for any other SQLSTATE, and for what is none. */
export function failureOfState(code: string): Failure | undefined {
  const row = isState(code) && STATES.find(([states]) => states.test(code));
  if (!row) return undefined;
  const [, kind, effect, todo] = row;
  return { kind, isOutage: effect !== 'none', isAway: effect === 'away', todo };
}

export function isState(code: string): boolean {
  return /^[0-9A-Z]{5}$/.test(code);
}

/** Two transactions conflicted, and the server rolled this one back: it may be tried again. */
export const CONFLICTS: ReadonlySet<string> = new Set(['40001', '40P01', 'P2034']);

/** A row violates a unique constraint. */
export const DUPLICATES: ReadonlySet<string> = new Set(['23505', 'P2002']);

/** Prisma's codes, and its adapter's names in a raw statement, for a database that is down, full, slow or not migrated. */
export const PRISMA_OUTAGES: ReadonlySet<string> = new Set([
  'P1000',
  'P1001',
  'P1002',
  'P1003',
  'P1008',
  'P1010',
  'P1011',
  'P1017',
  'P2021',
  'P2022',
  'P2024',
  'P2028',
  'P2034',
  'P2037',
  'DatabaseNotReachable',
  'DatabaseDoesNotExist',
  'DatabaseAccessDenied',
  'AuthenticationFailed',
  'ConnectionClosed',
  'ColumnNotFound',
  'SocketTimeout',
  'TableDoesNotExist',
  'TlsConnectionError',
  'TooManyConnections',
]);
