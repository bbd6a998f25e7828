import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

export interface Served {
  url: string;
  server: Server;
  stop(): Promise<void>;
}

/**
 * Milliseconds. Nothing says when a reader in another process has read what was sent, so a stream asks for
 * more only after this pause.
 */
const PAUSE = 50;

/**
 * Serves at a loopback address.
 * @param answer if it rejects, the connection is closed without an answer
 * @param port 0 for one that the system chooses
 */
export async function serve(answer: (request: Request) => Promise<Response>, port = 0): Promise<Served> {
  const server = createServer((incoming, outgoing) => {
    respond(answer, incoming, outgoing).catch(() => outgoing.destroy());
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    server,
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function respond(
  answer: (request: Request) => Promise<Response>,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  const { method = '', url = '/', headers } = incoming;
  const hasBody = method !== 'GET' && method !== 'HEAD';
  const request = new Request(`http://127.0.0.1${url}`, {
    method,
    headers: Object.entries(headers).map(([name, value]): [string, string] => [name, String(value)]),
    body: hasBody ? await text(incoming) : null,
  });
  const { status, headers: answered, body } = await answer(request);
  outgoing.writeHead(status, Object.fromEntries(answered)).flushHeaders();
  const isStream = answered.get('content-type') === 'text/event-stream';
  if (!body) {
    outgoing.end();
    return;
  }
  const reader = body.getReader();
  const hangUp = () => void reader.cancel().catch(() => undefined);
  outgoing.on('close', hangUp);
  // It may have been closed while the answer was made.
  if (outgoing.destroyed) hangUp();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const bytes = part.value as Uint8Array;
    await new Promise((resolve) => outgoing.write(bytes, resolve));
    if (isStream) await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
  outgoing.end();
}
