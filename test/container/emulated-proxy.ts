import { createServer, request as send, type IncomingMessage } from 'node:http';
import { buffer } from 'node:stream/consumers';
import type { Test } from 'tap';
import { listen } from '../support/listen.ts';

/** One header. Names may repeat. */
export type Header = readonly [name: string, value: string];

export interface Message {
  method: string;
  /** Path and query. */
  path: string;
  headers: Header[];
  body: Buffer;
}

export interface Reply {
  status: number;
  headers: Header[];
  body: Buffer | string;
}

const HOP_BY_HOP = /^(connection|keep-alive|proxy-connection|te|trailers?|transfer-encoding|upgrade)$/i;
/** Bytes: Envoy's default. Traefik allows more. */
const MAX_HEADERS = 60 * 1024;
const FRAMING = /^(content-length|transfer-encoding|connection|keep-alive)$/i;

/** A reverse proxy. `handle` holds the behaviour that differs between products. */
export async function startEmulatedProxy(
  t: Test,
  handle: (message: Message) => Promise<Reply>,
): Promise<{ url: string }> {
  const server = createServer({ maxHeaderSize: MAX_HEADERS }, (request, response) => {
    void answer(request).then(({ status, headers, body }) => {
      const framed = headers.filter(([name]) => !FRAMING.test(name)).flat();
      response.writeHead(status, [...framed, 'content-length', String(Buffer.byteLength(body))]).end(body);
    });
  });
  async function answer(request: IncomingMessage): Promise<Reply> {
    const { method = 'GET', url: path = '/', rawHeaders } = request;
    const headers = withoutHops(pairs(rawHeaders));
    return handle({ method, path, headers, body: await buffer(request) });
  }
  return { url: await listen(t, server) };
}

/** Forwards a request. Rejects if the upstream does not answer. */
export async function forward(to: string, { method, path, headers, body }: Message): Promise<Reply> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const own = [...headers.filter(([name]) => !FRAMING.test(name)), ['content-length', String(body.length)]];
    const outgoing = send(to + path, { method, headers: own.flat(), agent: false }, resolve);
    outgoing.on('error', reject);
    outgoing.end(body);
  });
  const { statusCode: status = 0, rawHeaders } = response;
  return { status, headers: withoutHops(pairs(rawHeaders)), body: await buffer(response) };
}

/** Hop-by-hop headers, and those that Connection names (RFC 9110, section 7.6.1). */
function withoutHops(headers: Header[]): Header[] {
  const named = new Set(
    valuesOf(headers, 'connection').flatMap((value) => value.toLowerCase().split(/ *, */)),
  );
  return headers.filter(([name]) => !HOP_BY_HOP.test(name) && !named.has(name.toLowerCase()));
}

export function valuesOf(headers: readonly Header[], wanted: string): string[] {
  return headers.filter(([name]) => isSame(name, wanted)).map(([, value]) => value);
}

function isSame(name: string, other: string): boolean {
  return name.toLowerCase() === other.toLowerCase();
}

function pairs(raw: readonly string[]): Header[] {
  return raw.flatMap((name, i) => (i % 2 === 0 ? [[name, raw[i + 1] ?? ''] as const] : []));
}
