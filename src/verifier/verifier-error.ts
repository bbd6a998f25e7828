/**
 * `invalid_token`: the token is malformed, forged, expired, revoked or not meant for this service: 401.
 * `unavailable`: it cannot be decided now; nothing is wrong with the token as far as anybody knows: 503, never 401.
 */
export type VerifierErrorCode = 'invalid_token' | 'unavailable';

/** What `verify` throws. The message says why, for a log; it holds nothing of the token. The code is the interface. */
export class VerifierError extends Error {
  override readonly name = 'VerifierError';
  readonly code: VerifierErrorCode;

  constructor(code: VerifierErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}
