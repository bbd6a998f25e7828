import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import Type from 'typebox';
import { ref } from '../openapi/refusals.ts';

/** A document that is the same for all clients, and that any cache may store for a while. */
export interface PublicDocument<Body> {
  body: Body;
  etag: string;
  /** The body as the route's serialiser writes it, from the first answer on. */
  json?: string;
}

const JSON_TYPE = 'application/json; charset=utf-8';

export const IfNoneMatch = Type.Object({
  'if-none-match': Type.Optional(Type.String({ description: 'The `ETag` of your copy' })),
});

const HEADERS = {
  'Cache-Control': ref('headers', 'PublicCacheControl'),
  ETag: ref('headers', 'ETag'),
  'Access-Control-Allow-Origin': ref('headers', 'AllowOrigin'),
};

/** The options of a route that serves one. */
export const PUBLIC_CONFIG = {
  group: 'documents',
  budget: { none: 'it sends a text that is ready in memory' },
} as const;

/** The answers of a public document in the reference. */
export const PUBLIC_ANSWERS = {
  200: { headers: HEADERS },
  304: { description: 'Your copy is current', headers: HEADERS },
};

export function makePublicDocument<Body>(body: Body): PublicDocument<Body> {
  const hash = createHash('sha256').update(JSON.stringify(body)).digest('base64url');
  return { body, etag: `"${hash}"` };
}

/**
 * Answers with the document, or with 304 if the client has it (RFC 9110, section 13.1.2). Scripts of any origin may
 * read it: they could also fetch it through a server of their own.
 * @param maxAge seconds.
 */
export function sendPublicDocument<Body>(
  request: FastifyRequest,
  reply: FastifyReply,
  document: PublicDocument<Body>,
  maxAge: number,
): void {
  const { etag } = document;
  void reply
    .header('cache-control', `public, max-age=${maxAge}`)
    .header('etag', etag)
    .header('access-control-allow-origin', '*');
  const known = request.headers['if-none-match'];
  if (known !== undefined && isAmong(etag, known)) {
    void reply.code(304).send();
    return;
  }
  document.json ??= reply.serialize(document.body) as string;
  void reply.type(JSON_TYPE).send(document.json);
}

/** Uses the weak comparison: a proxy that compresses makes our tag weak. */
function isAmong(etag: string, known: string): boolean {
  return known.split(',').some((entry) => {
    const tag = entry.trim();
    return tag === '*' || tag.replace(/^W\//, '') === etag;
  });
}
