import diagnostics from 'node:diagnostics_channel';
import type { Socket } from 'node:net';

/** Bytes per direction that are gathered before they are read. */
const BLOCK = 256 * 1024;
/** The largest request or answer. This much is kept, because a block may end in the middle of one. */
const OVERLAP = 32 * 1024;

/**
 * Reads every connection that this process opens to one of the given ports, through any client library.
 * @returns flush: reads the bytes gathered so far.
 */
export function tapConnections(ports: ReadonlySet<number>, read: (text: string) => void): () => void {
  const directions: ReturnType<typeof makeDirection>[] = [];

  diagnostics.subscribe('net.client.socket', (message) => {
    const { socket } = message as { socket: Socket };
    const [sent, received] = [makeDirection(read), makeDirection(read)];
    directions.push(sent, received);
    // The port is known only after the connect. Bytes written before are kept until then.
    const isWatched = () => socket.connecting || ports.has(socket.remotePort ?? 0);
    tapMethod(socket, 'write', isWatched, sent.add);
    tapMethod(socket, 'end', isWatched, sent.add);
    tapMethod(socket, 'push', isWatched, received.add);
    socket.once('connect', () => {
      if (!isWatched()) sent.drop();
    });
  });

  return () => {
    for (const direction of directions) direction.flush();
  };
}

function makeDirection(read: (text: string) => void) {
  let [chunks, length]: [Buffer[], number] = [[], 0];
  function flush(): void {
    if (length === 0) return;
    const whole = Buffer.concat(chunks);
    read(whole.toString());
    const rest = whole.subarray(-OVERLAP);
    [chunks, length] = [[rest], 0];
  }
  const add = (chunk: unknown, encoding: unknown): void => {
    const bytes =
      typeof chunk === 'string'
        ? Buffer.from(chunk, typeof encoding === 'string' ? (encoding as BufferEncoding) : 'utf8')
        : chunk instanceof Uint8Array
          ? Buffer.from(chunk)
          : null;
    if (!bytes || bytes.length === 0) return;
    chunks.push(bytes);
    length += bytes.length;
    if (length > BLOCK) flush();
  };
  const drop = (): void => {
    [chunks, length] = [[], 0];
  };
  return { add, drop, flush };
}

function tapMethod(
  socket: Socket,
  name: 'write' | 'end' | 'push',
  isWatched: () => boolean,
  add: (chunk: unknown, encoding: unknown) => void,
): void {
  const original = (socket[name] as (...args: unknown[]) => unknown).bind(socket);
  const tapped = (...args: unknown[]) => {
    if (isWatched()) add(args[0], args[1]);
    return original(...args);
  };
  // `connect` first restores the prototype's own `write`. That is ignored.
  Object.defineProperty(socket, name, { get: () => tapped, set: () => undefined, configurable: true });
}
