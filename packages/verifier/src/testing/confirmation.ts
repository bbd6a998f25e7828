const text = (form: RegExp) => (value: unknown) => typeof value === 'string' && form.test(value);

const FORMS: Readonly<Record<string, (value: unknown) => boolean>> = {
  position: text(/^[\w-]{1,64}\.(0|[1-9]\d{0,15})$/),
  instance: text(/^[\w.:-]{1,128}$/),
  software: text(/^[!-~]{1,64}$/),
  version: text(/^[!-~]{1,64}$/),
  audience: text(/^.{1,256}$/),
  max_staleness: (value) => Number.isInteger(value) && (value as number) >= 0 && (value as number) <= 604_800,
  when_stale: text(/^(accept|introspect|refuse)$/),
  keys: (value) => Array.isArray(value) && value.length <= 16 && value.every(text(/^[!-~]{1,128}$/)),
};

/** Whether it is what a reader says of itself and of how far it has applied the feed, as Latchkey checks it. */
export function isConfirmation(body: unknown): body is Record<string, unknown> {
  const given = Object(body) as Record<string, unknown>;
  const isFormed = Object.entries(given).every(([name, value]) => FORMS[name]?.(value) ?? false);
  return 'position' in given && 'max_staleness' in given === 'when_stale' in given && isFormed;
}
