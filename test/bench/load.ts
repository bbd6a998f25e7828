import { connect, type Socket } from 'node:net';

/** One keep-alive connection's share of the load: what to ask next, and what came back. */
export interface Caller {
  /** The bearer token of the next request. */
  token(): string;
  /** Told the body of each answer. */
  answered(body: string): void;
}

export interface LoadResult {
  requests: number;
  seconds: number;
  /** The load generator's own share of one core: near 1, it is the bottleneck, and not the server. */
  cpu: number;
}

/**
 * A closed loop: every caller has a connection of its own and asks again as soon as it is answered. Written on plain
 * sockets because a full HTTP client costs as much as the servers measured here, and because refreshes are a chain,
 * which the usual load tools cannot follow.
 * @throws Error at the first answer that is not 200: a fast refusal is not speed.
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

/** Asks, answer by answer, until the time is over. @returns how many answers came. */
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

/** The body of a complete answer, or null while there is more to come. */
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
