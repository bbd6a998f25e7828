import type { FastifyRequest } from 'fastify';
import { decodeUtf8 } from '../form.ts';

/**
 * The `User-Agent` as text for people, who recognise their sessions by it. Node reads each byte of a header as one
 * Latin-1 character, but most clients send UTF-8, so bytes that are valid UTF-8 are read as such. Every other header
 * that we read is compared, and holds ASCII.
 */
export function userAgentTextOf({ headers }: Pick<FastifyRequest, 'headers'>): string | undefined {
  const given = headers['user-agent'];
  return given && (decodeUtf8(Buffer.from(given, 'latin1')) ?? given);
}
