/**
 * `invalid_token`: the token is missing, malformed, forged, expired, revoked or not meant for this service. Answer 401.
 * `insufficient_scope`: it is a limited token and lacks a scope that is needed, or none is. Answer 403.
 * `insufficient_user_authentication`: the token is good, and its session was not opened as is demanded here. Answer 401.
 * `unavailable`: the token cannot be checked now. It may be good, so answer 503, never 401.
 */
export type VerifierErrorCode =
  | 'invalid_token'
  | 'insufficient_scope'
  | 'insufficient_user_authentication'
  | 'unavailable';

/** Why a token is not good. */
export type RefusalReason =
  /** The request carries no bearer token, or `exchange` was given none. `verify` itself does not have this reason. */
  | 'missing'
  /** It is no JWT, or its claims are not those of a Latchkey token. */
  | 'malformed'
  /** It is a JWT of another type, such as a refresh token, or of one that `accept` does not list. */
  | 'type'
  /** It is signed with a key or an algorithm that Latchkey does not publish. */
  | 'unknown_key'
  /** Its signature is wrong: it was changed or forged. */
  | 'signature'
  /** Latchkey signed it as another issuer. */
  | 'issuer'
  /** It is for another audience. */
  | 'audience'
  /** It has expired. */
  | 'expired'
  /** It is not valid yet: this machine's clock is behind. Latchkey writes no such time into a token. */
  | 'not_yet_valid'
  /** The feed has reported its end. */
  | 'revoked'
  /** Latchkey was asked, and says that it has ended, or that it exchanges no such token. */
  | 'inactive'
  /** It is a limited token without a scope that is needed, or where none is. */
  | 'scope'
  /** Its session was not opened with a second factor, or it does not say so. */
  | 'acr'
  /** Its session was opened too long ago, or it does not say when. */
  | 'max_age';

/** Why a token cannot be checked. */
export type OutageReason =
  /** The keys or the first snapshot of revocations have not arrived yet. */
  | 'not_ready'
  /** The feed has been silent for longer than `maxStaleness`, and `whenStale` is `refuse`. */
  | 'stale'
  /** Latchkey does not answer, or answers that it cannot. */
  | 'unreachable'
  /** An answer is not Latchkey's: `url` may be the address of another server. */
  | 'unexpected_answer'
  /** It stays like this until an operator or developer corrects the options, or the client's rights. */
  | 'configuration'
  /** To `onError` only: this machine's clock and Latchkey's differ by more than `clockTolerance`. */
  | 'clock'
  /** An error within the verifier, the runtime's cryptography, `client.assertion` or `onUser`. */
  | 'fault';

export type VerifierErrorReason = RefusalReason | OutageReason;

/** An option of `createVerifier` or `createTokens`; `audience` is also the one that a token was asked for. */
export type VerifierErrorOption = 'url' | 'issuer' | 'audience' | 'client';

interface Details {
  option?: VerifierErrorOption | undefined;
  expected?: string | undefined;
  found?: unknown;
  /** What the message calls the two, where the reader must know which one to change. */
  words?: readonly [expected: string, found: string] | undefined;
  cause?: unknown;
}

/** The most characters of a value that a client or server sent. */
const MAX_FOUND = 100;

/**
 * The error of `verify`, `ready`, `serviceToken` and `exchange`. Rely on `code` and `reason`; the message is for logs. It contains no part of the
 * token besides a wrong issuer, audience or type, and the scopes of a limited token that lacks one.
 */
export class VerifierError extends Error {
  override readonly name = 'VerifierError';
  readonly code: VerifierErrorCode;
  readonly reason: VerifierErrorReason;
  /** The option to look at; undefined if none seems wrong. */
  readonly option: VerifierErrorOption | undefined;
  /**
   * The configured issuer or audience, the types that are accepted, the scopes that are needed, separated by
   * spaces, or what is demanded of the login, as in the challenge; undefined for other reasons, and where no
   * scope is needed.
   */
  readonly expected: string | undefined;
  /** What stands there instead, in at most 100 printable characters; undefined if there is nothing. */
  readonly found: string | undefined;

  constructor(code: VerifierErrorCode, reason: VerifierErrorReason, message: string, details: Details = {}) {
    const { option, expected, cause, words = ['expected', 'found'] } = details;
    const found = printable(details.found);
    const difference =
      expected === undefined ? '' : `: ${words[0]} ${expected}, ${words[1]} ${found ?? 'none'}`;
    super(message + difference, cause === undefined ? undefined : { cause });
    this.code = code;
    this.reason = reason;
    this.option = option;
    this.expected = expected;
    this.found = found;
  }
}

export function invalid(reason: RefusalReason, message: string, details?: Details): VerifierError {
  return new VerifierError('invalid_token', reason, `the token is not good: ${message}`, details);
}

/** @param accept the types that are accepted. */
export function wrongType(accept: readonly string[], found: unknown): VerifierError {
  return invalid('type', 'its type is wrong', { expected: accept.join(' or '), found });
}

/** @param needed all scopes that are needed; null for none. @param scopes those of the token. */
export function insufficient(needed: readonly string[] | null, scopes: readonly string[]): VerifierError {
  const message = needed
    ? 'the limited token lacks a scope that is needed'
    : 'a limited token is good only where a scope is needed, and here none is';
  const difference = { expected: needed?.join(' '), found: scopes.join(' ') };
  return new VerifierError('insufficient_scope', 'scope', message, difference);
}

/** @param expected all that is demanded, as parameters of the challenge. @param found the claim */
export function unproven(
  reason: 'acr' | 'max_age',
  expected: string,
  found: string | number | undefined,
): VerifierError {
  const message = 'the token is good, but its session was not opened as is demanded';
  const details = { expected, found: found === undefined ? undefined : String(found) };
  return new VerifierError('insufficient_user_authentication', reason, message, details);
}

export function unavailable(reason: OutageReason, message: string, details?: Details): VerifierError {
  return new VerifierError('unavailable', reason, message, details);
}

/** One line of visible ASCII: the text goes into logs. */
function printable(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  const text = typeof value === 'string' ? value : `a value of type ${typeof value}`;
  const visible = text.slice(0, MAX_FOUND).replaceAll(/[^\x20-\x7e]/g, '?');
  return text.length > MAX_FOUND ? `${visible}…` : visible;
}

/** The error code, for example of a refused connection. Not the message: it might contain a URL with a password. */
export function reasonOf(error: unknown): string {
  const { name, code, cause } = Object(error) as { name?: string; code?: string; cause?: { code?: string } };
  return cause?.code ?? (typeof code === 'string' ? code : undefined) ?? name ?? 'unknown';
}
