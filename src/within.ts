/**
 * What the work comes to, where it does so in so many milliseconds; it is not stopped then, only not waited for.
 * @throws Error
 */
export function within<Value>(work: Promise<Value>, ms: number): Promise<Value> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      reject(new Error('timed out'));
    }, ms);
    work.then(resolve, reject).finally(() => {
      clearTimeout(timer);
    });
  });
}
