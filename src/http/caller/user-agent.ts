import type { FastifyRequest } from 'fastify';
import Bowser from 'bowser';
import { decodeUtf8 } from '../plugins/bodies.ts';
import type { Source } from '../../domain/audit/source.ts';
import { truncate } from '../../domain/truncate.ts';
import { addressOf } from './address.ts';
import { isInvisibleDevice, parseDevice, UNKNOWN_DEVICE } from '../../domain/users/device-name.ts';

/**
 * The `User-Agent` as text for people, who recognise their sessions by it. Node reads each byte of a header as one
 * Latin-1 character, but most clients send UTF-8, so bytes that are valid UTF-8 are read as such. Every other header
 * that we read is compared, and holds ASCII.
 */
export function userAgentTextOf({ headers }: Pick<FastifyRequest, 'headers'>): string | undefined {
  const given = headers['user-agent'];
  return given && (decodeUtf8(Buffer.from(given, 'latin1')) ?? given);
}

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

/** The name of a session or token: the given one, unless it is missing or invisible. */
export function deviceNameOf(given: string | undefined, userAgent: string | undefined): string {
  return given === undefined || isInvisibleDevice(given) ? deviceOf(userAgent) : given;
}

/** The name of a device that did not name itself: `Firefox on Linux`, `curl/8.5.0`, or `unknown`. */
export function deviceOf(userAgent: string | undefined): string {
  if (!userAgent) return UNKNOWN_DEVICE;
  const { browser, os } = Bowser.parse(userAgent);
  const [product = ''] = userAgent.split(' ', 1);
  const isBrowser = userAgent.startsWith('Mozilla/') && Boolean(browser.name);
  const name = isBrowser ? [browser.name, os.name].filter(Boolean).join(' on ') : truncate(product, 64);
  const label = parseDevice(name);
  return label.ok ? label.value : UNKNOWN_DEVICE;
}
