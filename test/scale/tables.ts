import type { Sample } from '../bench/statistics.ts';
import type { Table } from '../bench/tables.ts';
import type { Figure } from './measure.ts';
import type { Part, ScaleDocument } from './scale-document.ts';

/** The tables of each measured part. */
export function tablesOf(document: ScaleDocument): { part: Part; tables: Table[] }[] {
  const { replicas, connections, sessions, tokens, mixed } = document;
  return [
    ...(replicas
      ? [{ part: 'replicas' as const, tables: [loadTable('Replicas', 'replicas', replicas.figures)] }]
      : []),
    ...(connections
      ? [
          {
            part: 'connections' as const,
            tables: [loadTable('Connections', 'connections', connections.figures)],
          },
        ]
      : []),
    ...(sessions
      ? [
          {
            part: 'sessions' as const,
            tables: [
              loadTable(
                'Sessions',
                'sessions',
                sessions.figures.flatMap(({ figures }) => figures),
              ),
              bytesTable(sessions.figures),
            ],
          },
        ]
      : []),
    ...(tokens ? [{ part: 'tokens' as const, tables: [tokensTable(tokens.figures)] }] : []),
    ...(mixed ? [{ part: 'mixed' as const, tables: [] }] : []),
  ];
}

export function loadTable(
  title: string,
  vary: 'replicas' | 'connections' | 'sessions',
  figures: readonly Figure[],
): Table {
  const head = ['operation', vary, 'requests/s', 'replica CPU µs', 'Redis CPU µs', 'PostgreSQL CPU µs'];
  return {
    title,
    head,
    rows: figures.map((figure) => [
      ...[figure.operation, count(figure[vary]), spread(figure.perSecond), spread(figure.micros)],
      ...[spread(figure.redisMicros), spread(figure.postgresMicros)],
    ]),
  };
}

function bytesTable(figures: NonNullable<ScaleDocument['sessions']>['figures']): Table {
  return {
    title: 'Bytes',
    head: ['sessions', 'Redis, each', '`tokens`, each', '`users`, each user', 'Redis, all', '`tokens`, all'],
    rows: figures.map(({ sessions, bytes }) => [
      ...[count(sessions), count(bytes.redis / sessions), count(bytes.tokens / sessions)],
      ...[count((2 * bytes.users) / sessions), mib(bytes.redis), mib(bytes.tokens)],
    ]),
  };
}

function tokensTable(figures: NonNullable<ScaleDocument['tokens']>['figures']): Table {
  return {
    title: 'Tokens of one user',
    head: ['operation', 'tokens', 'ms', 'replica CPU ms', 'PostgreSQL CPU ms'],
    rows: figures.map(({ operation, tokens, took, cpu, postgres }) => [
      ...[operation, count(tokens), spread(took), spread(cpu), spread(postgres)],
    ]),
  };
}

/** For the terminal. */
export function reportText(document: ScaleDocument): string {
  const text = tablesOf(document)
    .flatMap(({ tables }) => tables)
    .map(({ title, head, rows }) => `${title}\n${[head, ...rows].map((row) => row.join('\t')).join('\n')}`);
  return `${text.join('\n\n')}\n`;
}

function count(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

function mib(bytes: number): string {
  return `${count(bytes / 1024 ** 2)} MiB`;
}

/** The median with the range of the middle half. */
export function spread({ median, low, high }: Sample): string {
  if (!Number.isFinite(median)) return '–';
  const digits = median < 10 ? 1 : 0;
  const of = (value: number) =>
    value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return `${of(median)} (${of(low)}–${of(high)})`;
}
