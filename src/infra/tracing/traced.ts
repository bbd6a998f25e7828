import type { PasswordHasher } from '../../domain/passwords/ports.ts';
import type { SessionStateStore } from '../../domain/sessions/ports.ts';
import type { Attributes, Tracer } from '../../domain/tracing/tracer.ts';

/** The same store, with a span for each question. Its arguments stay out of it. */
export function traceStates(states: SessionStateStore, tracer: Tracer): SessionStateStore {
  const traced = Object.entries(states).map(([name, method]) => {
    const attributes = { 'db.system.name': 'redis', 'db.operation.name': name };
    const ask = method as (...args: unknown[]) => Promise<unknown>;
    return [
      name,
      (...args: unknown[]) => inSpan(tracer, `redis ${name}`, attributes, () => ask(...args)),
    ] as const;
  });
  return Object.fromEntries(traced) as unknown as SessionStateStore;
}

/** The same hasher, with a span for each hash. */
export function traceHasher(hasher: PasswordHasher, tracer: Tracer): PasswordHasher {
  return {
    ...hasher,
    hash: (password) => inSpan(tracer, 'scrypt hash', {}, () => hasher.hash(password)),
    verify: (hash, password) => inSpan(tracer, 'scrypt verify', {}, () => hasher.verify(hash, password)),
  };
}

async function inSpan<Result>(
  tracer: Tracer,
  name: string,
  attributes: Attributes,
  work: () => Promise<Result>,
): Promise<Result> {
  const span = tracer.start(name, attributes);
  try {
    const result = await work();
    span.end();
    return result;
  } catch (error) {
    span.end(error);
    throw error;
  }
}
