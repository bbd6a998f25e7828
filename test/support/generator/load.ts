import { openConnection } from './connection.ts';

/** One keep-alive connection's share of the load. */
export interface Caller {
  /** Its next request; null if it has no more. */
  next(): string | null;
  /** Receives the body of each answer. */
  answered?(body: string): void;
}

export interface LoadResult {
  requests: number;
  seconds: number;
  /** The load generator's share of one core; near 1, the generator is the bottleneck, not the server. */
  cpu: number;
}

/**
 * A closed loop: every caller has its own connection and sends the next request after each answer. Refreshes form a
 * chain, which the usual load tools cannot follow.
 * @throws Error at the first answer other than 200: a fast refusal is not speed.
 */
export async function runLoad(
  origin: string,
  callers: readonly Caller[],
  seconds: number,
): Promise<LoadResult> {
  const cpu = process.cpuUsage();
  const start = performance.now();
  const end = start + seconds * 1000;
  const counts = await Promise.all(callers.map((caller) => callUntil(end, new URL(origin), caller)));
  const elapsed = (performance.now() - start) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  return {
    requests: counts.reduce((sum, count) => sum + count, 0),
    seconds: elapsed,
    cpu: (user + system) / 1e6 / elapsed,
  };
}

/** Sends requests until the time is over or the caller has no more. @returns the number of answers. */
function callUntil(end: number, origin: URL, caller: Caller): Promise<number> {
  return new Promise((resolve, reject) => {
    let answers = 0;
    const connection = openConnection(origin);
    const askNext = () => {
      const request = performance.now() < end ? caller.next() : null;
      if (request === null) {
        connection.close();
        resolve(answers);
        return;
      }
      connection.ask(request, ({ status, body }) => {
        if (status !== '200') {
          connection.close();
          reject(new Error(`an answer was ${status}: ${body}`));
          return;
        }
        answers++;
        caller.answered?.(body);
        askNext();
      });
    };
    askNext();
  });
}
