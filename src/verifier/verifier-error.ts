/**
 * `invalid_token`: the token is malformed, forged, expired, revoked or not meant for this service. Answer 401.
 * `unavailable`: the token cannot be checked now. It may be good, so answer 503, never 401.
 */
export type VerifierErrorCode = 'invalid_token' | 'unavailable';

/** The error of `verify`. Rely on the code; the message is for logs, and contains no part of the token. */
export class VerifierError extends Error {
  override readonly name = 'VerifierError';
  readonly code: VerifierErrorCode;

  constructor(code: VerifierErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}
