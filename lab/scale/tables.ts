import type { Sample } from '../bench/statistics.ts';
import type { Table } from '../bench/tables.ts';
import { COSTS } from '../../src/domain/sizing/costs.ts';
import { coresOf, isRemembered } from '../../src/domain/sizing/demand.ts';
import { rowWritesOf } from '../../src/domain/sizing/stores.ts';
import type { Figure, IdleFigure } from './measure.ts';
import type { MixedFigure } from './mixed.ts';
import type { ProxiedFigure } from './proxied.ts';
import { OPERATIONS } from './workloads.ts';
import type { Part, ScaleDocument } from './scale-document.ts';

/** The tables of each measured part. */
export function tablesOf(document: ScaleDocument): { part: Part; tables: Table[] }[] {
  const { replicas, connections, sessions, cold, tokens, proxied, mixed } = document;
  return [
    ...(replicas
      ? [
          {
            part: 'replicas' as const,
            tables: [loadTable('Replicas', 'replicas', replicas.figures), idleTable(replicas.idle)],
          },
        ]
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
    ...(cold
      ? [{ part: 'cold' as const, tables: [loadTable('Cold refreshes', 'replicas', cold.figures)] }]
      : []),
    ...(tokens ? [{ part: 'tokens' as const, tables: [tokensTable(tokens.figures)] }] : []),
    ...(proxied ? [{ part: 'proxied' as const, tables: [proxiedTable(proxied.figures)] }] : []),
    ...(mixed ? [{ part: 'mixed' as const, tables: [mixedTable(mixed.figures), bytesCheck(sessions)] }] : []),
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

/** Thousandths of a core. */
function idleTable({ replica, redis, postgres }: IdleFigure): Table {
  const thousandths = ({ median, low, high }: Sample) =>
    spread({ median: median * 1000, low: low * 1000, high: high * 1000 });
  return {
    title: 'Without requests, thousandths of a core',
    head: ['one replica', 'Redis, for each replica', 'PostgreSQL, for each replica'],
    rows: [[replica, redis, postgres].map(thousandths)],
  };
}

function bytesTable(figures: NonNullable<ScaleDocument['sessions']>['figures']): Table {
  return {
    title: 'Bytes',
    head: [
      ...['sessions', 'Redis, each', '`tokens`, each', '`users`, each user', '`known_devices`, each user'],
      ...['Redis, all', '`tokens`, all'],
    ],
    rows: figures.map(({ sessions, bytes }) => [
      ...[count(sessions), count(bytes.redis / sessions), count(bytes.tokens / sessions)],
      ...[count((2 * bytes.users) / sessions), count((2 * bytes.devices) / sessions)],
      ...[mib(bytes.redis), mib(bytes.tokens)],
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

function proxiedTable(figures: readonly ProxiedFigure[]): Table {
  return {
    title: 'Two event loops behind nginx',
    head: ['operation', 'way', 'requests/s', 'CPU µs of both', 'nginx CPU µs'],
    rows: figures.map(({ operation, way, perSecond, micros, proxyMicros }) => [
      ...[operation, way, spread(perSecond), spread(micros), spread(proxyMicros)],
    ]),
  };
}

/** The model beside mixes that it was not fitted to. */
function mixedTable(figures: readonly MixedFigure[]): Table {
  const head = ['set-up', 'requests/s', 'of the plan', 'planned', 'measured', 'error'];
  const row = (setUp: string, perSecond: string, what: string, planned: number, measured: Sample) => [
    ...[setUp, perSecond, what, count(planned), spread(measured)],
    signedPercent(planned / measured.median - 1),
  ];
  return {
    title: 'The plan beside the measurement',
    head,
    rows: figures.flatMap((figure) => {
      const { replicas, connections, sessions, requests, perSecond } = figure;
      const setUp =
        `${replicas} ${replicas === 1 ? 'replica' : 'replicas'}, ${connections} connections, ${count(sessions)} sessions: ` +
        OPERATIONS.filter((operation) => requests[operation] > 0)
          .map((operation) => `${requests[operation] / 10}% ${operation}`)
          .join(', ');
      const planned = plannedCost(figure);
      const rate = count(perSecond.median);
      return [
        row(setUp, rate, 'CPU µs of the replicas for a request', planned.micros, figure.micros),
        row('the same', rate, 'CPU µs of Redis for a request', planned.redisMicros, figure.redisMicros),
        row(
          'the same',
          rate,
          'CPU µs of PostgreSQL for a request',
          planned.postgresMicros,
          figure.postgresMicros,
        ),
        [
          ...['the same', rate, 'rows for 1,000 requests, at most', count(planned.rows)],
          ...[count(1000 * figure.rows), signedPercent(planned.rows / (1000 * figure.rows) - 1)],
        ],
      ];
    }),
  };
}

/** CPU microseconds and rows of the mix, by the model, at the rate that was measured. */
export function plannedCost({ sessions, requests, replicas, perSecond }: MixedFigure): {
  micros: number;
  redisMicros: number;
  postgresMicros: number;
  /** Of 1,000 requests. */
  rows: number;
} {
  const each = (operation: keyof typeof requests) => (requests[operation] / 1000) * perSecond.median;
  const coldRefreshes = each('cold refresh');
  const rates = {
    ...{ logins: each('login'), verifies: each('verify') },
    ...{ refreshes: each('refresh') + coldRefreshes, coldRefreshes },
  };
  const { idle } = COSTS;
  // Half of the sessions verify (mixed.ts).
  const cores = coresOf(rates, isRemembered(sessions / 2), COSTS);
  const perRequest = (used: number) => (used * 1e6) / perSecond.median;
  return {
    micros: perRequest(cores.loop + cores.hash + idle.replica * replicas),
    redisMicros: perRequest(cores.redis + idle.redis * replicas),
    postgresMicros: perRequest(cores.postgres + idle.postgres * replicas),
    rows: (rowWritesOf(rates) * 1000) / perSecond.median,
  };
}

/** Bytes of the largest number of sessions, which was not fitted. */
function bytesCheck(sessions: ScaleDocument['sessions']): Table {
  const figure = sessions?.figures.at(-1);
  const head = ['store', 'planned', 'measured', 'error'];
  if (!figure) return { title: 'Bytes', head, rows: [] };
  const { redisSession, redisUser, token, user, knownDevice } = COSTS.bytes;
  const row = (store: string, planned: number, measured: number) => [
    ...[store, mib(planned), mib(measured)],
    signedPercent(planned / measured - 1),
  ];
  return {
    title: `Bytes of ${count(figure.sessions)} sessions, two of each user`,
    head,
    rows: [
      row('Redis', figure.sessions * (redisSession + redisUser / 2), figure.bytes.redis),
      row('`tokens`', figure.sessions * token, figure.bytes.tokens),
      row('`users`', (figure.sessions / 2) * user, figure.bytes.users),
      row('`known_devices`', (figure.sessions / 2) * knownDevice, figure.bytes.devices),
    ],
  };
}

function signedPercent(share: number): string {
  return `${share < 0 ? '−' : '+'}${Math.abs(100 * share).toFixed(0)}%`;
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
