import type { FastifyRequest } from 'fastify';

const SCHEME = 'Bearer ';
const BEARER = /^Bearer +([^\s]+) *$/i;

/** RFC 6750, section 2.1: the only place where we look for a token. */
export function bearerTokenOf({
  headers: { authorization = '' },
}: Pick<FastifyRequest, 'headers'>): string | undefined {
  // The usual form needs no pattern, which would look at each character of a long token.
  const token = authorization.startsWith(SCHEME) ? authorization.slice(SCHEME.length) : '';
  if (token !== '' && !token.includes(' ')) return token;
  return BEARER.exec(authorization)?.[1];
}
