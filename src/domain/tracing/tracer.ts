/** What is told of a span: names, methods, statuses. Never an address, a token, an e-mail, a statement's values. */
export type Attributes = Readonly<Record<string, string | number>>;

export interface Span {
  /** @param error what failed, where something did: its name and code are kept, its message may quote anything. */
  end(error?: unknown): void;
}

/** A request, and the trace that it belongs to (W3C Trace Context). */
export interface RequestSpan {
  traceId: string;
  spanId: string;
  /** Does what belongs to the request, so that the spans of its work are found below it. */
  run<Result>(work: () => Result): Result;
  end(method: string, route: string | undefined, status: number): void;
}

/** Where spans go. There is none at all where tracing is off. */
export interface Tracer {
  /** A request has come, with the headers of its caller's trace. */
  request(headers: Readonly<Record<string, unknown>>): RequestSpan;
  /** Work off this process's main thread, below the request that is being answered; without one it makes no span. */
  start(name: string, attributes: Attributes): Span;
  /** The request that is being answered; null where none is. */
  current(): { traceId: string; spanId: string } | null;
}
