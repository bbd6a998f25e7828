import { connect } from 'node:net';
import type { Answer } from './problem.ts';

/** Sends raw bytes. Resolves with the complete answer once the connection has ended. */
export function exchange(url: string, text: string | Buffer): Promise<string> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    let received = '';
    const socket = connect(Number(port), hostname, () => socket.write(text));
    socket.on('data', (chunk) => (received += chunk.toString()));
    socket.on('error', reject);
    socket.on('close', () => {
      resolve(received);
    });
  });
}

/** Splits the bytes of one connection into answers. Each needs a Content-Length. */
export function answersIn(received: string): Answer[] {
  const answers: Answer[] = [];
  let rest = received;
  while (rest !== '') {
    const end = rest.indexOf('\r\n\r\n');
    if (end === -1) throw new Error(`no answer: ${JSON.stringify(rest)}`);
    const [first = '', ...lines] = rest.slice(0, end).split('\r\n');
    const headers = new Map(lines.map(readHeader));
    const length = Number(headers.get('content-length'));
    const body = rest.slice(end + 4, end + 4 + length);
    answers.push({ status: Number(first.split(' ')[1]), header: (name) => headers.get(name), body });
    rest = rest.slice(end + 4 + length);
  }
  return answers;
}

function readHeader(line: string): [string, string] {
  const colon = line.indexOf(':');
  return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
}
