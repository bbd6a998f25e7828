import { connect, type Socket } from 'node:net';

export interface Answer {
  status: number;
  /** By lower-case name. */
  headers: Map<string, string>;
  body: Buffer;
}

/** Milliseconds. No answer of the service takes this long, so a longer wait would never end. */
const HANG = 60_000;

/** One connection at a time, opened on demand. Requests are raw bytes, so that malformed ones can be sent too. */
export function openWire(url: string) {
  const { hostname, port } = new URL(url);
  let socket: Socket | null = null;

  /** @param isHead the answer has no body, even if it announces one. @throws Error if no answer comes in time. */
  async function ask(request: Buffer, isHead: boolean): Promise<Answer> {
    const current = socket ?? connect(Number(port), hostname);
    socket = current;
    let received = Buffer.alloc(0);
    const answer = await new Promise<Answer>((resolve, reject) => {
      const timer = setTimeout(() => {
        reject(new Error(`no answer within ${HANG} ms`));
      }, HANG);
      const settle = (finish: () => void) => {
        clearTimeout(timer);
        current.removeAllListeners();
        current.on('error', () => undefined);
        finish();
      };
      current.on('data', (chunk) => {
        received = Buffer.concat([received, chunk]);
        const found = readAnswer(received, isHead);
        if (found) {
          settle(() => {
            resolve(found);
          });
        }
      });
      current.on('error', () => undefined);
      current.on('close', () => {
        settle(() => {
          reject(new Error(`the connection ended after ${received.length} bytes of an answer`));
        });
      });
      current.write(request);
    });
    if (answer.headers.get('connection') === 'close' || isStream(answer)) close();
    return answer;
  }

  function close(): void {
    socket?.destroy();
    socket = null;
  }

  return { ask, close };
}

/** The first final answer in the received bytes; null while it is incomplete. */
function readAnswer(received: Buffer, isHead: boolean): Answer | null {
  const end = received.indexOf('\r\n\r\n');
  if (end === -1) return null;
  const [first = '', ...lines] = received.subarray(0, end).toString('latin1').split('\r\n');
  const status = Number(first.split(' ')[1]);
  const rest = received.subarray(end + 4);
  if (status < 200) return readAnswer(rest, isHead);
  const headers = new Map<string, string>();
  for (const line of lines) {
    const colon = line.indexOf(':');
    const name = line.slice(0, colon).toLowerCase();
    const value = line.slice(colon + 1).trim();
    const before = headers.get(name);
    headers.set(name, before === undefined ? value : `${before}, ${value}`);
  }
  const answer = { status, headers, body: Buffer.alloc(0) };
  if (isHead || status === 204 || status === 304) return answer;
  if (isStream(answer)) {
    const body = unchunked(rest);
    return eventsIn(body.toString()).length === 0 ? null : { ...answer, body };
  }
  const length = Number(headers.get('content-length') ?? Number.NaN);
  if (Number.isNaN(length)) return { ...answer, body: Buffer.from(`without a length: ${first}`) };
  return rest.length < length ? null : { ...answer, body: rest.subarray(0, length) };
}

/** The part of a chunked body that has arrived so far. */
function unchunked(received: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; ;) {
    const end = received.indexOf('\r\n', at);
    if (end === -1) return Buffer.concat(parts);
    const length = parseInt(received.subarray(at, end).toString('latin1'), 16);
    parts.push(received.subarray(end + 2, end + 2 + length));
    at = end + 2 + length + 2;
  }
}

/** The complete events of a stream. */
export function eventsIn(text: string): { event: string; data: string }[] {
  return text
    .split('\n\n')
    .slice(0, -1)
    .flatMap((block) => {
      const fields = new Map(
        block.split('\n').map((line) => [line.replace(/:.*$/, ''), line.replace(/^[^:]*: ?/, '')]),
      );
      const data = fields.get('data');
      return data === undefined ? [] : [{ event: fields.get('event') ?? 'message', data }];
    });
}

/** A stream never ends, so only its head and first event are read. */
function isStream({ headers }: Answer): boolean {
  return headers.get('content-type')?.startsWith('text/event-stream') ?? false;
}
