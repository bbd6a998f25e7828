import type { FastifyBaseLogger, FastifyRequest } from 'fastify';
import type { ErrorCode } from '../../domain/errors.ts';
import type { LoggedRequests, RequestGroup } from '../../telemetry/request-lines.ts';
import '../request.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The group of the route in LOG_REQUESTS; `other` if absent. */
    group?: RequestGroup;
  }
}

/** Whether a request leaves a line. */
export function isLogged(logged: LoggedRequests, status: number): boolean {
  return logged === 'all' || (logged === 'failures' && status >= 400);
}

/** Writes a request's line. @param route its pattern; @param elapsed milliseconds. */
export function logRequest(
  request: FastifyRequest,
  route: string | undefined,
  status: number,
  elapsed: number,
): void {
  const { method, errorCode, refusalReason, limited, principal, presented } = request;
  const { traceId, spanId } = request;
  const service = request.service ?? request.callingService;
  const serviceId = service?.serviceId ?? request.refusedService;
  const entry = {
    method,
    // The pattern, not the path: a client may put a token there by mistake.
    route: route ?? null,
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
  if (isOurFault(status, errorCode)) request.log.warn(entry, 'request');
  else request.log.info(entry, 'request');
}

/** Excludes client errors, and refusals that ask a client to wait: a flood must not fill the log with warnings. */
function isOurFault(status: number, code: ErrorCode | null): boolean {
  return status >= 500 && code !== 'overloaded' && code !== 'refresh_overlap';
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
