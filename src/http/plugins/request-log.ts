import type { FastifyBaseLogger, FastifyRequest } from 'fastify';
import type { Clock, Timers } from '../../domain/clock.ts';
import type { ErrorCode } from '../../domain/errors.ts';
import type { RefusalReason } from '../../domain/refusal-reasons.ts';
import type { LoggedRequests, RequestGroup } from '../../telemetry/request-lines.ts';
import { PROBLEMS } from '../problem.ts';
import '../request.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The group of the route in LOG_REQUESTS; `other` if absent. */
    group?: RequestGroup;
  }
}

/** Every line that a request can cause as often as it is sent. */
export interface RequestLog {
  /** Writes a request's line, if LOG_REQUESTS asks for it. @param elapsed milliseconds. */
  ended(request: FastifyRequest, status: number, elapsed: number): void;
  /** The same for a request that was refused below the router, where no request object exists. */
  refused(requestId: string, code: ErrorCode): void;
  /** Writes why a request gets a 500. */
  failed(request: FastifyRequest, error: Error): void;
  /** Writes how many lines were left out and not yet reported. */
  close(): void;
}

interface RequestLogParts {
  logger: FastifyBaseLogger;
  /** LOG_REQUESTS. */
  logged: Readonly<Record<RequestGroup, LoggedRequests>>;
  clock: Pick<Clock, 'monotonic'>;
  timers: Timers;
}

/** What lines of a kind have in common. Its members are closed sets, so that the number of kinds has a bound. */
interface LineKind {
  line: 'request' | 'internal error';
  level: 'info' | 'warn' | 'error';
  group: RequestGroup;
  status: number;
  code: ErrorCode | null;
  reason: RefusalReason | null;
}

export function makeRequestLog({ logged, ...parts }: RequestLogParts): RequestLog {
  const { logger } = parts;
  const strangers = makeStrangerLines(parts);

  function write(kind: LineKind, log: FastifyBaseLogger, entryOf: () => object, isStranger: boolean): void {
    const skipped = isStranger ? strangers.admit(kind) : 0;
    if (skipped !== null) log[kind.level]({ ...entryOf(), ...(skipped > 0 && { skipped }) }, kind.line);
  }

  return {
    ended(request, status, elapsed) {
      const group = groupOf(request);
      if (!isLogged(logged[group], status)) return;
      const { errorCode: code, refusalReason: reason } = request;
      const level = isOurFault(status, code) ? 'warn' : 'info';
      const kind: LineKind = { line: 'request', level, group, status, code, reason };
      const isLimited = status >= 400 && isStranger(request);
      write(kind, request.log, () => requestEntry(request, status, elapsed), isLimited);
    },
    refused(requestId, code) {
      const [status] = PROBLEMS[code];
      if (!isLogged(logged.other, status)) return;
      const kind: LineKind = { line: 'request', level: 'info', group: 'other', status, code, reason: null };
      write(kind, logger, () => ({ reqId: requestId, status, code }), true);
    },
    failed(request, error) {
      const kind = { line: 'internal error', level: 'error', status: 500, code: 'internal_error' } as const;
      const group = groupOf(request);
      write({ ...kind, group, reason: null }, request.log, () => ({ err: error }), isStranger(request));
    },
    close: strangers.report,
  };
}

/** Whether a request leaves a line. */
function isLogged(logged: LoggedRequests, status: number): boolean {
  return logged === 'all' || (logged === 'failures' && status >= 400);
}

function groupOf({ routeOptions: { config } }: FastifyRequest): RequestGroup {
  return config.group ?? 'other';
}

function requestEntry(request: FastifyRequest, status: number, elapsed: number): object {
  const { method, errorCode, refusalReason, limited, principal, presented } = request;
  const { traceId, spanId } = request;
  const service = request.service ?? request.callingService;
  const serviceId = service?.serviceId ?? request.refusedService;
  return {
    method,
    // The pattern, not the path: a client may put a token there by mistake.
    route: request.routeOptions.url ?? null,
    status,
    ms: Math.round(elapsed * 1000) / 1000,
    ...(errorCode && { code: errorCode }),
    ...(refusalReason && { reason: refusalReason }),
    ...(limited && { limited }),
    ...(principal && { userId: principal.user.id, tokenId: principal.tokenId }),
    ...(!principal && presented && { userId: presented.userId, tokenId: presented.tokenId }),
    ...(serviceId && { clientId: serviceId }),
    ...(traceId && { trace_id: traceId }),
    ...(spanId && { span_id: spanId }),
  };
}

/** Excludes client errors, and refusals that ask a client to wait: a flood must not fill the log with warnings. */
function isOurFault(status: number, code: ErrorCode | null): boolean {
  return status >= 500 && code !== 'overloaded' && code !== 'refresh_overlap';
}

/** Whether nobody that Latchkey knows has sent this request: neither the owner of a token that it signed nor a service. */
function isStranger(request: FastifyRequest): boolean {
  const { principal, presented, service, callingService, refusedService, errorCode } = request;
  // Whoever is refused for a wrong secret only names the service.
  const hasProved = refusedService !== null && errorCode !== 'invalid_client';
  return !principal && !presented && !service && !callingService && !hasProved;
}

/** How many lines of a kind may follow each other at once, and the time to the next one; milliseconds. */
const BURST = 10;
const INTERVAL = 1000;
/** After at most this time the log says how many lines it lacks, if no other line of their kind does; milliseconds. */
const REPORT = 60_000;

/** Limits the lines that strangers cause, who could hide with them what else they do. The metrics count all requests. */
function makeStrangerLines({ logger, clock, timers }: Omit<RequestLogParts, 'logged'>) {
  /** @property fullAt when the whole burst is allowed again. */
  const kinds = new Map<string, { kind: LineKind; fullAt: number; skipped: number }>();
  let timer: unknown = null;

  /** @returns how many lines of this kind were left out before this one; null if this one is left out. */
  function admit(kind: LineKind): number | null {
    const key = Object.values(kind).join();
    const known = kinds.get(key) ?? { kind, fullAt: 0, skipped: 0 };
    kinds.set(key, known);
    const { skipped } = known;
    if (logger.level !== 'debug' && logger.level !== 'trace') {
      const now = clock.monotonic();
      const fullAt = Math.max(known.fullAt, now) + INTERVAL;
      if (fullAt - now > BURST * INTERVAL) {
        known.skipped++;
        timer ??= timers.set(report, REPORT);
        return null;
      }
      known.fullAt = fullAt;
    }
    known.skipped = 0;
    return skipped;
  }

  function report(): void {
    timers.clear(timer);
    timer = null;
    for (const known of kinds.values()) {
      const { kind, skipped } = known;
      const { level, ...rest } = kind;
      if (skipped > 0) logger[level]({ ...rest, skipped }, 'lines of requests were left out');
      known.skipped = 0;
    }
  }

  return { admit, report };
}

const LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;

/**
 * A request's logger. It creates pino's child with the first line: most requests write none.
 */
class LazyChild {
  #child: FastifyBaseLogger | null = null;
  readonly #create: () => FastifyBaseLogger;

  constructor(create: () => FastifyBaseLogger) {
    this.#create = create;
  }

  get own(): FastifyBaseLogger {
    this.#child ??= this.#create();
    return this.#child;
  }

  get level(): string {
    return this.own.level;
  }

  set level(level: string) {
    this.own.level = level;
  }

  child(...args: Parameters<FastifyBaseLogger['child']>): FastifyBaseLogger {
    return this.own.child(...args);
  }
}

for (const level of LEVELS) {
  Object.defineProperty(LazyChild.prototype, level, {
    value(this: LazyChild, ...args: Parameters<FastifyBaseLogger['info']>) {
      this.own[level](...args);
    },
  });
}

/** Fastify's `childLoggerFactory`. */
export function makeChildLogger(
  logger: FastifyBaseLogger,
  bindings: Parameters<FastifyBaseLogger['child']>[0],
  options: Parameters<FastifyBaseLogger['child']>[1],
): FastifyBaseLogger {
  return new LazyChild(() => logger.child(bindings, options)) as unknown as FastifyBaseLogger;
}
