import { connect } from 'node:net';
import { chunkedBody } from './chunked.ts';

export interface Answer {
  /** Three digits, or `failed`. */
  status: string;
  /** The status line and the headers; empty for `failed`. */
  head: string;
  /** For `failed`, the reason. */
  body: string;
}

/** A keep-alive connection of HTTP/1.1 with at most one request in flight. */
export interface Connection {
  origin: URL;
  /** Sends a whole request. If the connection is lost, the answer is `failed`. */
  ask(request: string, answered: (answer: Answer) => void): void;
  isOpen(): boolean;
  close(): void;
}

/** More than most answers here; a longer one arrives in parts. */
const BUFFER = 16_384;

/**
 * Plain sockets, because a full HTTP client costs more than the servers that it measures. The socket reads into one
 * buffer and leaves out Node's streams.
 */
export function openConnection(origin: URL): Connection {
  const { hostname, port } = origin;
  let received = '';
  let asked: ((answer: Answer) => void) | null = null;
  const finish = (answer: Answer) => {
    const answered = asked;
    received = '';
    asked = null;
    answered?.(answer);
  };
  const fail = (reason: string) => {
    socket.destroy();
    finish({ status: 'failed', head: '', body: reason });
  };
  const finishAt = (headEnd: number, body: string) => {
    finish({ status: received.slice(9, 12), head: received.slice(0, headEnd), body });
  };
  const read = (length: number, buffer: Uint8Array) => {
    received += (buffer as Buffer).toString('latin1', 0, length);
    const headEnd = received.indexOf('\r\n\r\n');
    if (headEnd === -1) return true;
    const bodyLength = /\r\ncontent-length: (\d+)/i.exec(received)?.[1];
    if (bodyLength === undefined) readChunks(headEnd);
    else if (received.length >= headEnd + 4 + Number(bodyLength))
      finishAt(headEnd, received.slice(headEnd + 4));
    return true;
  };
  // Latchkey and the floor send a length. Some of the peers do not.
  const readChunks = (headEnd: number) => {
    if (!/\r\ntransfer-encoding: chunked\r\n/i.test(received.slice(0, headEnd + 2))) {
      fail(`an answer without a length: ${received}`);
      return;
    }
    const body = chunkedBody(received.slice(headEnd + 4));
    if (body !== null) finishAt(headEnd, body);
  };
  const onread = { buffer: Buffer.allocUnsafe(BUFFER), callback: read };
  const socket = connect({ host: hostname, port: Number(port), noDelay: true, onread });
  socket.on('error', ({ message }) => {
    fail(message);
  });
  socket.on('close', () => {
    fail('the server closed the connection');
  });
  return {
    origin,
    ask(request, answered) {
      asked = answered;
      if (socket.destroyed) fail('the server had closed the connection');
      else socket.write(request, 'latin1');
    },
    isOpen: () => !socket.destroyed,
    close() {
      socket.destroy();
    },
  };
}
