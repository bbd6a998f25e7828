/** A span's attributes: names, methods, statuses. Never an address, a token, an e-mail or a statement's values. */
export type Attributes = Readonly<Record<string, string | number>>;

export interface Span {
  /** @param error of a failure: its name and code are kept, but not its message, which may quote anything. */
  end(error?: unknown): void;
}

/** A request, and the trace that it belongs to (W3C Trace Context). */
export interface RequestSpan {
  traceId: string;
  spanId: string;
  /** Runs work as a part of the request: its spans become children of this one. */
  run<Result>(work: () => Result): Result;
  end(method: string, route: string | undefined, status: number): void;
}

/** Starts spans. There is no tracer if tracing is off. */
export interface Tracer {
  /** Starts the span of a request, as a part of the trace in its headers. */
  request(headers: Readonly<Record<string, unknown>>): RequestSpan;
  /** Starts a span for work off the main thread, as a child of the current request. Outside a request it is a no-op. */
  start(name: string, attributes: Attributes): Span;
  /** The current request; null outside a request. */
  current(): { traceId: string; spanId: string } | null;
}
