import type { Sample } from '../bench/statistics.ts';
import { COSTS, REMEMBERED, type Costs } from '../../src/domain/sizing/costs.ts';
import { coresOf, isRemembered } from '../../src/domain/sizing/demand.ts';
import type { ChangeFigure } from './changes.ts';
import type { ConfirmedFigure } from './confirmed.ts';
import type { ReadersFigure } from './readers.ts';
import type { ReplayFigure } from './replay.ts';
import { rowWritesOf } from '../../src/domain/sizing/stores.ts';
import {
  count,
  fixed,
  MAX_LOAD,
  mib,
  percent,
  reportText,
  sourceText,
  type Figures,
  type Table,
} from '../table.ts';
import { carriedTable, largeTable } from './large.ts';
import type { Figure, IdleFigure } from './measure.ts';
import type { MixedFigure } from './mixed.ts';
import type { ProxiedFigure } from './proxied.ts';
import { plannedText } from './planned.ts';
import { OPERATIONS } from './workloads.ts';
import { PARTS, type Part, type ScaleDocument } from './scale-document.ts';
import type { UsesFigure } from './uses.ts';

/**
 * For docs/performance.md: the parts that were measured on a quiet machine; null if none was.
 * @param costs of the plan, which `mixed` checks.
 */
export function figuresOf(document: ScaleDocument, costs = COSTS): Figures {
  const quiet = PARTS.filter((part) => (document[part]?.machine.load ?? 0) <= MAX_LOAD);
  const texts = quiet.flatMap((part) => partText(part, document, costs) ?? []);
  return {
    'npx latchkey plan --users N': plannedText(costs),
    'npm run scale -- --save': texts.length > 0 ? texts.join('\n\n') : null,
  };
}

/** For the terminal: what has been measured. */
export function scaleText(document: ScaleDocument): string {
  return PARTS.flatMap((part) => partText(part, document, COSTS) ?? []).join('\n\n');
}

function partText(part: Part, document: ScaleDocument, costs: Costs): string | null {
  const { machine } = document[part] ?? {};
  if (!machine) return null;
  const source = sourceText(machine.at, machine, `load average ${machine.load.toFixed(1)}`);
  return reportText(tablesOf(document, costs)[part] ?? [], [], source);
}

/** The tables of each measured part. */
function tablesOf(document: ScaleDocument, costs: Costs): Partial<Record<Part, Table[]>> {
  const {
    replicas,
    connections,
    sessions,
    cold,
    tokens,
    changes,
    readers,
    confirmed,
    uses,
    replay,
    proxied,
    large,
    mixed,
  } = document;
  const held = sessions?.figures.flatMap(({ figures }) => figures) ?? [];
  return {
    ...(replicas && {
      replicas: [loadTable('Replicas', 'replicas', replicas.figures), idleTable(replicas.idle)],
    }),
    ...(connections && { connections: [loadTable('Connections', 'connections', connections.figures)] }),
    ...(sessions && { sessions: [loadTable('Sessions', 'sessions', held), bytesTable(sessions.figures)] }),
    ...(document.new && { new: [loadTable('First verifies', 'replicas', document.new.figures)] }),
    ...(cold && { cold: [loadTable('Cold refreshes', 'replicas', cold.figures)] }),
    ...(tokens && { tokens: [tokensTable(tokens.figures)] }),
    ...(changes && { changes: [changesTable(changes.figures)] }),
    ...(readers && { readers: [readersTable(readers.figures)] }),
    ...(confirmed && { confirmed: [confirmedTable(confirmed.figures)] }),
    ...(uses && { uses: [usesTable(uses.figures)] }),
    ...(replay && { replay: [replayTable(replay.figures)] }),
    ...(proxied && { proxied: [proxiedTable(proxied.figures)] }),
    ...(large && { large: [largeTable(large.figures, document), carriedTable(large.figures, costs)] }),
    ...(mixed && { mixed: [mixedTable(mixed.figures, costs), bytesCheck(sessions, costs)] }),
  };
}

function loadTable(
  title: string,
  vary: 'replicas' | 'connections' | 'sessions',
  figures: readonly Figure[],
): Table {
  const head = [
    'operation',
    vary,
    'requests/s',
    'replica CPU µs',
    'Redis CPU µs',
    'PostgreSQL CPU µs',
    'requests/s per vCPU of all three',
  ];
  return {
    title,
    head,
    rows: figures.map((figure) => [
      figure.operation,
      figure[vary],
      figure.perSecond,
      figure.micros,
      figure.redisMicros,
      figure.postgresMicros,
      perVcpu(figure),
    ]),
  };
}

/** As many as one core does if it does the work of the replica, Redis and PostgreSQL. */
function perVcpu({ micros, redisMicros, postgresMicros }: Figure): string {
  const perSecond = 1e6 / (micros.median + redisMicros.median + postgresMicros.median);
  return fixed(perSecond, perSecond < 10 ? 1 : 0);
}

/** Thousandths of a core. */
function idleTable({ replica, redis, postgres }: IdleFigure): Table {
  const thousandths = ({ median, low, high }: Sample) => ({
    median: median * 1000,
    low: low * 1000,
    high: high * 1000,
  });
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
      'sessions',
      'Redis, each',
      '`tokens`, each',
      '`users`, each user',
      '`known_devices`, each user',
      'Redis, all',
      '`tokens`, all',
    ],
    rows: figures.map(({ sessions, bytes }) => [
      sessions,
      bytes.redis / sessions,
      bytes.tokens / sessions,
      (2 * bytes.users) / sessions,
      (2 * bytes.devices) / sessions,
      mib(bytes.redis),
      mib(bytes.tokens),
    ]),
  };
}

function tokensTable(figures: NonNullable<ScaleDocument['tokens']>['figures']): Table {
  return {
    title: 'Tokens of one user',
    head: ['operation', 'tokens', 'ms', 'replica CPU ms', 'PostgreSQL CPU ms'],
    rows: figures.map(({ operation, tokens, took, cpu, postgres }) => [
      operation,
      tokens,
      took,
      cpu,
      postgres,
    ]),
  };
}

function changesTable(figures: readonly ChangeFigure[]): Table {
  return {
    title: 'Revocations and changed users',
    head: [
      'change',
      'replicas',
      'CPU µs of all replicas',
      'Redis CPU µs',
      'PostgreSQL CPU µs',
      'rows written',
    ],
    rows: figures.map(({ change, replicas, micros, redisMicros, postgresMicros, rows }) => [
      change,
      replicas,
      micros,
      redisMicros,
      postgresMicros,
      rows,
    ]),
  };
}

function readersTable(figures: readonly ReadersFigure[]): Table {
  return {
    title: 'Readers of the feed on one replica',
    head: ['readers', 'CPU µs a second, each', 'with 6 events a second'],
    rows: figures.map(({ readers, quiet, busy }) => [readers, quiet, busy]),
  };
}

function confirmedTable(figures: readonly ConfirmedFigure[]): Table {
  return {
    title: 'Readers that confirm, with a revocation a second',
    head: [
      'readers',
      'replicas',
      'rows written/s',
      'kB of WAL/s',
      'PostgreSQL CPU ms/s',
      'CPU ms/s of all replicas',
      'ms until it is done',
      'p99',
    ],
    rows: figures.map(({ readers, replicas, rows, walBytes, postgresMillis, replicaMillis, done }) => [
      readers,
      replicas,
      fixed(rows, 0),
      fixed(walBytes / 1000, 0),
      fixed(postgresMillis, 0),
      fixed(replicaMillis, 0),
      fixed(done.median, 0),
      fixed(done.p99, 0),
    ]),
  };
}

function usesTable(figures: readonly UsesFigure[]): Table {
  return {
    title: 'Reported uses, in a minute',
    head: [
      'tokens in use',
      'verifiers',
      'reports',
      'rows written',
      'kB of WAL',
      'PostgreSQL CPU ms',
      'replica CPU ms',
    ],
    rows: figures.map(({ tokens, verifiers, reports, rows, walBytes, postgresMillis, replicaMillis }) => [
      tokens,
      verifiers,
      reports,
      rows,
      thousands(walBytes),
      postgresMillis,
      replicaMillis,
    ]),
  };
}

function thousands({ median, low, high }: Sample): Sample {
  return { median: median / 1000, low: low / 1000, high: high / 1000 };
}

function replayTable(figures: readonly ReplayFigure[]): Table {
  return {
    title: 'What a replica repeats',
    head: ['what', 'how many', 'seconds'],
    rows: figures.map(({ what, count, seconds }) => [what, count, seconds]),
  };
}

function proxiedTable(figures: readonly ProxiedFigure[]): Table {
  return {
    title: 'Two event loops behind nginx',
    head: ['operation', 'way', 'requests/s', 'CPU µs of both', 'nginx CPU µs'],
    rows: figures.map(({ operation, way, perSecond, micros, proxyMicros }) => [
      operation,
      way,
      perSecond,
      micros,
      proxyMicros,
    ]),
  };
}

/** The model beside mixes that it was not fitted to. */
function mixedTable(figures: readonly MixedFigure[], costs: Costs): Table {
  return {
    title: 'The plan beside the measurement',
    head: ['set-up', 'requests/s', 'of the plan', 'planned', 'measured', 'error'],
    rows: figures.flatMap((figure) => {
      const { replicas, connections, sessions, requests, perSecond } = figure;
      const setUp =
        `${replicas} ${replicas === 1 ? 'replica' : 'replicas'}, ${connections} connections, ${count(sessions)} sessions: ` +
        OPERATIONS.filter((operation) => requests[operation] > 0)
          .map((operation) => `${requests[operation] / 10}% ${operation}`)
          .join(', ');
      const planned = plannedCost(figure, costs);
      const row = (what: string, plan: number, measured: number | Sample) => {
        const middle = typeof measured === 'number' ? measured : measured.median;
        return [what, plan, measured, percent(plan / middle - 1)];
      };
      return [
        row('CPU µs of the replicas for a request', planned.micros, figure.micros),
        row('CPU µs of Redis for a request', planned.redisMicros, figure.redisMicros),
        row('CPU µs of PostgreSQL for a request', planned.postgresMicros, figure.postgresMicros),
        row('rows for 1,000 requests, at most', planned.rows, 1000 * figure.rows),
      ].map((cells, i) => [i === 0 ? setUp : 'the same', perSecond.median, ...cells]);
    }),
  };
}

/** CPU microseconds and rows of the mix, by the model, at the rate that was measured. */
function plannedCost(
  { sessions, requests, replicas, perSecond }: MixedFigure,
  costs: Costs,
): {
  micros: number;
  redisMicros: number;
  postgresMicros: number;
  /** Of 1,000 requests. */
  rows: number;
} {
  const each = (operation: keyof typeof requests) => (requests[operation] / 1000) * perSecond.median;
  const coldRefreshes = each('cold refresh');
  const rates = {
    logins: each('login'),
    verifies: each('verify'),
    refreshes: each('refresh') + coldRefreshes,
    coldRefreshes,
    revocations: 0,
    changes: 0,
  };
  const { idle } = costs;
  // Half of the sessions verify (mixed.ts).
  const spread = { replicas, firstVerifies: isRemembered(sessions / 2, REMEMBERED) ? 0 : 1, feedReaders: 0 };
  const cores = coresOf(rates, spread, costs);
  const perRequest = (used: number) => (used * 1e6) / perSecond.median;
  return {
    micros: perRequest(cores.loop + cores.hash + idle.replica * replicas),
    redisMicros: perRequest(cores.redis + idle.redis * replicas),
    postgresMicros: perRequest(cores.postgres + idle.postgres * replicas),
    rows: (rowWritesOf(rates) * 1000) / perSecond.median,
  };
}

/** Bytes of the largest number of sessions, which was not fitted. */
function bytesCheck(sessions: ScaleDocument['sessions'], costs: Costs): Table {
  const figure = sessions?.figures.at(-1);
  const head = ['store', 'planned', 'measured', 'error'];
  if (!figure) return { title: 'Bytes', head, rows: [] };
  const { redisSession, redisUser, token, user, knownDevice } = costs.bytes;
  const row = (store: string, planned: number, measured: number) => [
    store,
    mib(planned),
    mib(measured),
    percent(planned / measured - 1),
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
