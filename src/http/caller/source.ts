import type { FastifyRequest } from 'fastify';
import type { Source } from '../../domain/audit/source.ts';
import { truncate } from '../../domain/truncate.ts';
import { addressOf } from './address.ts';
import { userAgentTextOf } from './user-agent.ts';

const MAX_USER_AGENT = 256;
/** What is looked at. The rest of a header of up to 16 KiB only costs time. */
const MAX_READ = 1024;

/** Controls, format characters, lone surrogates, line separators. */
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]+/gu;
/** Credentials, and the parts of words that look like an e-mail address, a token or a service's secret. */
const CREDENTIALS = /\b(?:basic|bearer) \S+/gi;
const PRIVATE = /[@＠]|%40|eyJ[\w.-]{8}|lks_/i;

/** Where a request came from, for the audit trail. */
export function sourceOf(request: FastifyRequest): Source {
  return {
    address: addressOf(request)?.text ?? null,
    userAgent: cleanUserAgent(userAgentTextOf(request)),
    requestId: request.id,
    serviceId: request.service?.serviceId ?? null,
  };
}

/** A client may send any text as its User-Agent. */
export function cleanUserAgent(given: string | undefined): string | null {
  if (given === undefined) return null;
  const words = truncate(given, MAX_READ)
    .replace(UNPRINTABLE, ' ')
    .replace(CREDENTIALS, '[removed]')
    .split(' ')
    .map((word) => (PRIVATE.test(word) ? '[removed]' : word));
  return truncate(words.join(' '), MAX_USER_AGENT);
}
