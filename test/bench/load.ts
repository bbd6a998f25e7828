import { connect, type Socket } from 'node:net';

/** One keep-alive connection's share of the load: its next request, and a callback for each answer. */
export interface Caller {
  /** The bearer token of the next request. */
  token(): string;
  /** Receives the body of each answer. */
  answered(body: string): void;
}

export interface LoadResult {
  requests: number;
  seconds: number;
  /** The load generator's share of one core; near 1, the generator is the bottleneck, not the server. */
  cpu: number;
}

/**
 * A closed loop: every caller has its own connection and sends the next request after each answer. It uses plain
 * sockets because a full HTTP client costs as much as the servers measured here. Refreshes form a chain,
 * which the usual load tools cannot follow.
 * @throws Error at the first answer other than 200: a fast refusal is not speed.
 */
export async function runLoad(
  origin: string,
  path: string,
  callers: readonly Caller[],
  seconds: number,
): Promise<LoadResult> {
  const cpu = process.cpuUsage();
  const start = performance.now();
  const end = start + seconds * 1000;
  const counts = await Promise.all(callers.map((caller) => callUntil(end, new URL(path, origin), caller)));
  const elapsed = (performance.now() - start) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  return {
    requests: counts.reduce((sum, count) => sum + count, 0),
    seconds: elapsed,
    cpu: (user + system) / 1e6 / elapsed,
  };
}

/** Sends requests until the time is over. @returns the number of answers. */
function callUntil(end: number, { hostname, port, host, pathname }: URL, caller: Caller): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port), noDelay: true });
    const head = `GET ${pathname} HTTP/1.1\r\nHost: ${host}\r\nUser-Agent: bench\r\nAuthorization: Bearer `;
    let answers = 0;
    let received = '';
    const ask = () => socket.write(`${head}${caller.token()}\r\n\r\n`, 'latin1');
    const fail = (reason: string) => {
      socket.destroy();
      reject(new Error(reason));
    };

    socket.setEncoding('latin1');
    socket.on('connect', ask);
    socket.on('error', reject);
    socket.on('close', () => {
      reject(new Error('the server closed the connection'));
    });
    socket.on('data', (chunk: string) => {
      received = received === '' ? chunk : received + chunk;
      const body = bodyOf(received);
      if (body === null) return;
      if (!received.startsWith('HTTP/1.1 200')) {
        fail(`an answer was not 200: ${received}`);
        return;
      }
      received = '';
      answers++;
      caller.answered(body);
      if (performance.now() < end) ask();
      else finish(socket, answers, resolve);
    });
  });
}

/** The body of a complete answer; null if the answer is not complete. */
export function bodyOf(received: string): string | null {
  const headEnd = received.indexOf('\r\n\r\n');
  if (headEnd === -1) return null;
  const length = /\r\ncontent-length: (\d+)/i.exec(received)?.[1];
  if (length === undefined) throw new Error(`an answer without a length: ${received}`);
  const start = headEnd + 4;
  return received.length < start + Number(length) ? null : received.slice(start);
}

function finish(socket: Socket, answers: number, resolve: (answers: number) => void): void {
  resolve(answers);
  socket.removeAllListeners('close');
  socket.destroy();
}
