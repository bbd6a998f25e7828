import type { Demand } from './principal.ts';
import type { ProofRefusal, REFUSAL_REASONS, RefusalReason } from './refusal-reasons.ts';
import { kindOf, type Right } from './rights.ts';
import type { SecondStepNeeded } from './second-step.ts';

/**
 * Every way in which a request can be refused. The codes are the interface: clients branch on them and they never
 * change meaning. The table in docs/errors.md documents each; `http/problem.ts` gives each its status and title.
 */
export const ERROR_CODES = [
  // 400
  'bad_request',
  'malformed_json',
  'validation_failed',
  'username_taken',
  'email_taken',
  'external_id_taken',
  'password_refused',
  'too_many_tokens',
  'too_many_factors',
  'unsupported_grant_type',
  'invalid_subject_token',
  'invalid_target',
  // 401
  'token_missing',
  'invalid_token',
  'token_reused',
  'token_unknown',
  'invalid_credentials',
  'invalid_reset_token',
  'invalid_verification_token',
  'second_factor_required',
  'invalid_login_token',
  'invalid_second_factor',
  'invalid_passkey',
  'passkey_unknown',
  'invalid_client',
  'insufficient_user_authentication',
  // 403
  'token_not_allowed',
  'insufficient_scope',
  'signup_disabled',
  'llt_disabled',
  'login_too_old',
  'factors_disabled',
  'email_not_verified',
  'right_missing',
  'origin_not_listed',
  // 404
  'user_unknown',
  'factor_unknown',
  // the protocol's own
  'not_found',
  'method_not_allowed',
  'request_timeout',
  'body_too_large',
  'unsupported_media_type',
  'expectation_failed',
  'rate_limited',
  'headers_too_large',
  // ours
  'internal_error',
  'unavailable',
  'overloaded',
  'refresh_overlap',
] as const;

export type ErrorCode = (typeof ERROR_CODES)[number];

/**
 * Every way in which a field can be refused. As with `ERROR_CODES`, a code never changes its meaning, and docs/errors.md
 * documents each.
 */
export const FIELD_CODES = [
  'required',
  'unknown',
  'type',
  'format',
  'blank',
  'too_short',
  'too_long',
  'too_many',
  'out_of_range',
  'repeated',
  'not_allowed',
  'not_allowed_character',
  'mixed_scripts',
  'reserved',
  'taken',
  'common',
  'pattern',
  'personal',
] as const;

type FieldCode = (typeof FIELD_CODES)[number];

/** Why a field was refused. `params` are limits of ours. Nothing here may hold a value that the client sent. */
export type FieldProblem =
  | { code: 'too_short'; params: { min: number }; message: string }
  | { code: 'too_long' | 'too_many'; params: { max: number }; message: string }
  | { code: Exclude<FieldCode, 'too_short' | 'too_long' | 'too_many'>; params?: never; message: string };

/** One field that was refused. `path` is a JSON pointer into the body, or `query/id` and the like elsewhere. */
export type FieldError = { path: string } & FieldProblem;

export interface AuthErrorOptions {
  cause?: unknown;
  /** The refused fields; each is shown to the client, so it may hold no value that the client sent. */
  errors?: FieldError[];
  /** Seconds after which the client may retry. */
  retryAfter?: number;
  /** The right that `right_missing` names; its kind is the reason. */
  right?: Right;
  /** Of `insufficient_scope`: all that are demanded; none where a limited token is good for nothing. */
  scopes?: readonly string[];
  /** Of `insufficient_user_authentication`: all that is demanded; null if that was not understood. */
  demand?: Demand | null;
  /** Of `second_factor_required`. */
  secondStep?: SecondStepNeeded;
  /** For operators: a client in production never sees it. */
  reason?: RefusalReason;
  /** Of `rate_limited`: a keyed hash of whom or what is limited. */
  limited?: string;
  /** Of `invalid_client`, `invalid_token` and `right_missing`: the registered service that is refused, for the log. */
  serviceId?: string;
}

type Reasons = typeof REFUSAL_REASONS;

/** What a code cannot do without, besides its reason. */
interface Needed {
  right_missing: { right: Right };
  insufficient_scope: { scopes: readonly string[]; reason: 'scope' };
  insufficient_user_authentication: { demand: Demand | null; reason: ProofRefusal };
}

/** A code with reasons does not compile without one; that of `right_missing` is its right. */
type OptionsOf<Code extends ErrorCode> = Code extends keyof Reasons
  ? [AuthErrorOptions & (Code extends keyof Needed ? Needed[Code] : { reason: Reasons[Code][number] })]
  : [AuthErrorOptions?];

/** An expected refusal. Any other error is a bug and is answered with 500. */
export class AuthError<Code extends ErrorCode = ErrorCode> extends Error {
  readonly code: ErrorCode;
  readonly errors: FieldError[] | undefined;
  readonly retryAfter: number | undefined;
  readonly right: Right | undefined;
  readonly scopes: readonly string[] | undefined;
  readonly demand: Demand | null;
  readonly secondStep: SecondStepNeeded | undefined;
  readonly reason: RefusalReason | undefined;
  readonly limited: string | undefined;
  readonly serviceId: string | undefined;

  constructor(code: Code, ...[options = {}]: OptionsOf<Code>) {
    const { cause, errors, retryAfter, right, scopes, demand = null, secondStep } = options;
    const { limited, serviceId } = options;
    const { reason = right && kindOf(right) } = options;
    super(code, cause === undefined ? undefined : { cause });
    this.name = 'AuthError';
    this.code = code;
    this.errors = errors;
    this.retryAfter = retryAfter;
    this.right = right;
    this.scopes = scopes;
    this.demand = demand;
    this.secondStep = secondStep;
    this.reason = reason;
    this.limited = limited;
    this.serviceId = serviceId;
  }
}

/** Whether a store did not answer. */
export function isOutage(error: unknown): boolean {
  return error instanceof AuthError && error.code === 'unavailable';
}

/** For work whose failure changes no answer, also if it had no room in a lane. @throws any other error */
export function ignoreOutage(error: unknown): void {
  const hadNoRoom = error instanceof AuthError && error.reason === 'lane';
  if (!isOutage(error) && !hadNoRoom) throw error;
}

/** The message, with the name and code of the cause: `unavailable` alone does not say why. */
export function reasonOf(error: unknown): string {
  const { message, cause } = error as Error;
  return cause instanceof Error ? `${message}: ${cause.name}${codeOf(cause)}` : message;
}

function codeOf(error: Error): string {
  const { code } = error as NodeJS.ErrnoException;
  return code === undefined ? '' : ` ${code}`;
}
