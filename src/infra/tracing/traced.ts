import type { PasswordHasher } from '../../domain/passwords/ports.ts';
import type { Attributes, Tracer } from '../../telemetry/tracer.ts';

/** Decorates a Redis store with a span per call. Spans never contain the arguments. */
export function traceRedis<Store extends object>(store: Store, tracer: Tracer): Store {
  const traced = Object.entries(store).map(([name, method]) => {
    const attributes = { 'db.system.name': 'redis', 'db.operation.name': name };
    const ask = method as (...args: unknown[]) => Promise<unknown>;
    return [
      name,
      (...args: unknown[]) => inSpan(tracer, `redis ${name}`, attributes, () => ask(...args)),
    ] as const;
  });
  return Object.fromEntries(traced) as unknown as Store;
}

/** Decorates a hasher with a span per hash. */
export function traceHasher(hasher: PasswordHasher, tracer: Tracer): PasswordHasher {
  return {
    ...hasher,
    hash: (password) => inSpan(tracer, 'scrypt hash', {}, () => hasher.hash(password)),
    verify: (hash, password) => inSpan(tracer, 'password verify', {}, () => hasher.verify(hash, password)),
    imitate: (cost, password) => inSpan(tracer, 'password verify', {}, () => hasher.imitate(cost, password)),
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
