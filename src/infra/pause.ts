/** Resolves after `ms` milliseconds, unless the process ends before: it does not wait for that. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref();
  });
}
