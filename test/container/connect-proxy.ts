import { createServer } from 'node:http';
import { connect } from 'node:net';
import type { Test } from 'tap';
import { listen } from '../support/listen.ts';

/** A proxy to the internet that only opens tunnels. It ends with the test. */
export interface ConnectProxy {
  url: string;
  /** The `HOST:PORT` of each CONNECT request. */
  asked: string[];
}

export async function connectProxy(t: Test): Promise<ConnectProxy> {
  const asked: string[] = [];
  const server = createServer((_, response) => response.writeHead(405).end());
  server.on('connect', ({ url = '' }, client) => {
    asked.push(url);
    const { hostname, port } = new URL(`http://${url}`);
    const origin = connect(Number(port), hostname, () => {
      client.write('HTTP/1.1 200 Connection Established\r\n\r\n');
      client.pipe(origin).pipe(client);
    });
    origin.on('error', () => client.destroy());
    client.on('error', () => origin.destroy());
  });
  return { url: await listen(t, server), asked };
}
