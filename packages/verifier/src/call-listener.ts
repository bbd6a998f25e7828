/**
 * Calls a function of the service that only listens, and ignores its errors. It may be async although its type says
 * that it returns nothing, and a rejection that nobody handles would end the process.
 */
export function callListener<Told extends unknown[]>(
  listener: (...told: Told) => unknown,
  ...told: Told
): void {
  const called = async () => {
    await listener(...told);
  };
  called().catch(() => undefined);
}
