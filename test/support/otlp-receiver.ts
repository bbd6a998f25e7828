import { createServer } from 'node:http';
import { gunzipSync } from 'node:zlib';
import type { Test } from 'tap';
import { listen } from './listen.ts';

export interface ReceivedSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  status: { code?: number };
  attributes: Record<string, unknown>;
}

/**
 * A collector that accepts spans by OTLP over HTTP and keeps them.
 * @param onBody gets the bodies instead; none are kept.
 */
export async function startOtlpReceiver(t: Test, onBody?: (body: Buffer) => void) {
  const bodies: { type: string; path: string; body: Buffer }[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const sent = Buffer.concat(chunks);
      const body = request.headers['content-encoding'] === 'gzip' ? gunzipSync(sent) : sent;
      if (onBody) onBody(body);
      else bodies.push({ type: request.headers['content-type'] ?? '', path: request.url ?? '', body });
      response.setHeader('content-type', 'application/json');
      response.end('{}');
    });
  });
  const url = await listen(t, server);
  return {
    url,
    bodies: () => bodies,
    bytes: () => Buffer.concat(bodies.map(({ body }) => body)),
    /** The spans that were sent as JSON. */
    spans: () =>
      bodies.filter(({ type }) => type === 'application/json').flatMap(({ body }) => spansIn(body)),
    resources: () =>
      bodies.flatMap(({ body }) => parse(body).map(({ resource }) => read(resource.attributes))),
  };
}

interface Attribute {
  key: string;
  value: Record<string, unknown>;
}
interface ResourceSpans {
  resource: { attributes: Attribute[] };
  scopeSpans: { spans: (Omit<ReceivedSpan, 'attributes'> & { attributes: Attribute[] })[] }[];
}

function parse(body: Buffer): ResourceSpans[] {
  return (JSON.parse(body.toString()) as { resourceSpans: ResourceSpans[] }).resourceSpans;
}

function spansIn(body: Buffer): ReceivedSpan[] {
  return parse(body)
    .flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans))
    .map((span) => ({ ...span, attributes: read(span.attributes) }));
}

function read(attributes: Attribute[]): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
}
