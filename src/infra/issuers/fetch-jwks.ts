import type { PublicJwks } from '../../domain/services/assertion.ts';
import { truncate } from '../../domain/truncate.ts';
import { networkCause, type Cause } from '../../telemetry/store-cause.ts';
import { discoveryUrl, keysUrl } from './issuer-url.ts';
import { readJwks } from './jwks.ts';

/** The keys of an issuer could not be fetched. Its message is for operators, and may name what the issuer answered. */
export class IssuerError extends Error {
  override name = 'IssuerError';
  readonly code: string;
  /** What an operator should do. */
  readonly todo: string;

  constructor({ code, reason, todo }: Cause) {
    super(reason);
    this.code = code;
    this.todo = todo;
  }
}

export interface FetchOptions {
  fetch: typeof globalThis.fetch;
  /** For both requests with their answers, in milliseconds. */
  timeout?: number;
}

const TIMEOUT = 5000;
/** Of one answer. */
const MAX_BYTES = 262_144;
/** Of what an issuer answered, in an error. */
const SHOWN = 200;

/**
 * The key set that an issuer publishes at present: its discovery names where. Follows no redirect, so that the issuer's
 * host alone decides, and sends no credentials.
 * @throws IssuerError
 */
export async function fetchJwks(
  issuer: string,
  { fetch, timeout = TIMEOUT }: FetchOptions,
): Promise<PublicJwks> {
  const discovery = discoveryUrl(issuer);
  if (!discovery) {
    throw new IssuerError({
      code: 'url',
      reason: 'the issuer is neither an https URL nor an http URL on loopback',
      todo: 'give its keys with `latchkey client trust … --jwks FILE`',
    });
  }
  const signal = AbortSignal.timeout(timeout);
  const json = (url: URL) => fetchJson(url, { fetch, signal });
  const metadata = Object(await json(discovery)) as Record<string, unknown>;
  // OpenID Connect Discovery, section 4.3: another issuer's metadata may not be used.
  if (metadata.issuer !== issuer)
    throw unexpected(discovery, `its issuer is ${show(metadata.issuer)}`, 'register exactly that issuer');
  const keys = keysUrl(metadata.jwks_uri, discovery);
  if (!keys)
    throw unexpected(discovery, `its jwks_uri is ${show(metadata.jwks_uri)}`, 'it must be an https URL');
  const jwks = readJwks(await json(keys));
  if (!jwks) throw unexpected(keys, 'it is no key set', 'check the issuer');
  return jwks;
}

async function fetchJson(
  url: URL,
  { fetch, signal }: { fetch: FetchOptions['fetch']; signal: AbortSignal },
): Promise<unknown> {
  let text: string | null;
  try {
    const accept = { accept: 'application/json' };
    const response = await fetch(url, { redirect: 'manual', credentials: 'omit', headers: accept, signal });
    if (response.status !== 200) {
      await response.body?.cancel();
      const hint = 'it must answer without a redirect and without a login';
      throw unexpected(url, `its status is ${response.status}`, hint);
    }
    text = await textOf(response);
  } catch (error) {
    throw asIssuerError(error, url, signal);
  }
  if (text === null) throw unexpected(url, `it is larger than ${MAX_BYTES} bytes`, 'check the issuer');
  try {
    return JSON.parse(text);
  } catch {
    throw unexpected(url, 'it is no JSON', 'check the issuer');
  }
}

/** @returns null if it is too large, although its headers may say otherwise. */
async function textOf({ body }: Response): Promise<string | null> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array>) {
    size += chunk.byteLength;
    // Leaving the loop closes the connection.
    if (size > MAX_BYTES) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

function unexpected(url: URL, problem: string, todo: string): IssuerError {
  return new IssuerError({ code: 'answer', reason: `${nameOf(url)}: ${problem}`, todo });
}

function asIssuerError(error: unknown, url: URL, signal: AbortSignal): IssuerError {
  if (error instanceof IssuerError) return error;
  if (signal.aborted) {
    const todo = 'check the network, and that the issuer answers';
    return new IssuerError({ code: 'timeout', reason: `${nameOf(url)} did not answer in time`, todo });
  }
  const { message, cause } = error as Error;
  const found = cause instanceof Error ? networkCause(cause, nameOf(url), 'NODE_EXTRA_CA_CERTS') : null;
  const { code, reason, todo } = found ?? { code: 'fetch', reason: message, todo: 'check the issuer' };
  return new IssuerError({ code, reason: `${nameOf(url)}: ${reason}`, todo });
}

function nameOf({ origin, pathname }: URL): string {
  return origin + pathname;
}

function show(value: unknown): string {
  return value === undefined ? 'missing' : truncate(JSON.stringify(value), SHOWN);
}
