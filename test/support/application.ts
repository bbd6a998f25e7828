import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';

/** A request as it reached the application behind a proxy. */
export interface Seen extends Pick<
  IncomingMessage,
  'method' | 'url' | 'headers' | 'rawHeaders' | 'rawTrailers'
> {
  body: string;
}

/**
 * Stands for the application behind a proxy: it notes what it gets and answers 201, or 500 at /broken. It takes
 * whatever wants to be upgraded, and then says hello.
 */
export async function startApplication(t: Test, seen: Seen[]): Promise<string> {
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      const { method, url, headers, rawHeaders, rawTrailers } = request;
      seen.push({ method, url, headers, rawHeaders, rawTrailers, body });
      if (url === '/broken') response.writeHead(500).end('the application failed');
      else response.writeHead(201).end();
    });
  });
  server.on('upgrade', ({ method, url, headers, rawHeaders, rawTrailers }: IncomingMessage, socket) => {
    seen.push({ method, url, headers, rawHeaders, rawTrailers, body: '' });
    const { upgrade = '' } = headers;
    socket.end(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${upgrade}\r\n\r\nhello`);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
