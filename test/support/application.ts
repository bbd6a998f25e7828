import { createServer, type IncomingMessage } from 'node:http';
import type { Test } from 'tap';
import { listen } from './listen.ts';

/** A request as it reached the application behind a proxy. */
export interface Seen extends Pick<
  IncomingMessage,
  'method' | 'url' | 'headers' | 'rawHeaders' | 'rawTrailers'
> {
  body: string;
}

/**
 * Stands for the application behind a proxy: it records requests and answers 201, 500 at /broken, or 403 at /forbidden. It accepts
 * every upgrade and then sends a greeting.
 */
export async function startApplication(t: Test, seen: Seen[]): Promise<string> {
  // A proxy's limit should be what refuses a request, and not this.
  const server = createServer({ maxHeaderSize: 2 ** 20 }, (request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      const { method, url, headers, rawHeaders, rawTrailers } = request;
      seen.push({ method, url, headers, rawHeaders, rawTrailers, body });
      if (url === '/broken') response.writeHead(500).end('the application failed');
      else if (url === '/forbidden') response.writeHead(403).end('the application refuses');
      else response.writeHead(201).end();
    });
  });
  server.on('upgrade', ({ method, url, headers, rawHeaders, rawTrailers }: IncomingMessage, socket) => {
    seen.push({ method, url, headers, rawHeaders, rawTrailers, body: '' });
    const { upgrade = '' } = headers;
    socket.end(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${upgrade}\r\n\r\nhello`);
  });
  return listen(t, server);
}
