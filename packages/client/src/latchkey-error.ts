/** The codes that do not come from Latchkey (docs/errors.md lists those). */
export type OwnCode =
  /** No answer arrived within 10 s. Latchkey may have done what was asked. */
  | 'no_answer'
  /** An answer that is not Latchkey's: something in between wrote it. */
  | 'unexpected_answer'
  | 'signed_out'
  /** The storage threw: see `cause`. */
  | 'storage_failed'
  /** Neither `url` nor `apis` has the URL’s origin, or a redirect leads to another one. Nothing was sent there. */
  | 'origin_not_allowed';

/** A field that Latchkey refused. */
export interface FieldError {
  path: string;
  /** For programs; docs/errors.md lists the codes. */
  code: string;
  /** The limit, for codes that have one. */
  params?: { min?: number; max?: number };
  /** In English. */
  message: string;
}

/** Problem details (RFC 9457) as Latchkey sends them. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: string;
  request_id: string;
  errors?: readonly FieldError[];
  /** Of `second_factor_required`: what `completeLogin` takes. */
  login_token?: string;
  /** Of `second_factor_required`: how the user may prove more, such as `totp` and `recovery_code`. The list may grow. */
  methods?: readonly string[];
  /** Of `second_factor_required`: when `login_token` expires (RFC 3339). */
  expires_at?: string;
}

export interface ErrorParts {
  status?: number;
  retryAfter?: number | undefined;
  requestId?: string | undefined;
  problem?: Problem;
  cause?: unknown;
}

export class LatchkeyError extends Error {
  /** For programs: one of `OwnCode`, or a code of Latchkey. */
  readonly code: string;
  /** Of the answer, if there was one. */
  readonly status: number | undefined;
  /** In seconds, as the answer asked. */
  readonly retryAfter: number | undefined;
  /** For the log of Latchkey. */
  readonly requestId: string | undefined;
  readonly errors: readonly FieldError[];
  readonly problem: Problem | undefined;

  constructor(code: string, message: string, parts: ErrorParts = {}) {
    super(message);
    this.name = 'LatchkeyError';
    this.code = code;
    this.status = parts.status;
    this.retryAfter = parts.retryAfter;
    this.requestId = parts.requestId;
    this.problem = parts.problem;
    this.errors = parts.problem?.errors ?? [];
    this.cause = parts.cause;
  }
}

export function signedOut(): LatchkeyError {
  return new LatchkeyError('signed_out', 'signed out');
}

/** Whether Latchkey itself refused the token. A proxy’s 401 or 403 says nothing about it, nor one that took it away. */
export function isRefusal(error: unknown): boolean {
  if (!(error instanceof LatchkeyError) || !error.problem || error.code === 'token_missing') return false;
  return error.status === 401 || error.status === 403;
}
