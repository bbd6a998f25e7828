import Type from 'typebox';
import type { Demand } from '../domain/principal.ts';
import { REFUSAL_REASONS, type RefusalReason } from '../domain/refusal-reasons.ts';
import type { Right } from '../domain/rights.ts';
import { SECOND_STEPS, type SecondStepNeeded } from '../domain/second-step.ts';
import {
  ERROR_CODES,
  FIELD_CODES,
  type AuthError,
  type ErrorCode,
  type FieldError,
} from '../domain/errors.ts';
import { Timestamp, timestamp } from './schemas.ts';

/** RFC 9457 problem details: the format of every error answer. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: ErrorCode;
  request_id: string;
  errors?: FieldError[];
  reason?: RefusalReason;
}

/** Status, title and detail of each code; the compiler demands all. The table in docs/errors.md shows status and code. */
export const PROBLEMS = {
  bad_request: [400, 'Bad request', 'The request is not well-formed HTTP.'],
  malformed_json: [400, 'Malformed JSON', 'The body is missing, or is not JSON in UTF-8.'],
  validation_failed: [400, 'Validation failed', 'The request does not have the documented form; see errors.'],
  username_taken: [400, 'Username taken', 'Another account has this username.'],
  email_taken: [400, 'E-mail address taken', 'Another account has this e-mail address.'],
  external_id_taken: [400, 'External id taken', 'Another account has this external id.'],
  password_refused: [400, 'Password refused', 'The password is too easy to guess; see errors.'],
  too_many_tokens: [
    400,
    'Too many tokens',
    'The account has reached its limit of long-lived tokens; delete one first.',
  ],
  too_many_factors: [
    400,
    'Too many second factors',
    'The account has reached its limit of passkeys; remove one first.',
  ],
  unsupported_grant_type: [
    400,
    'Unsupported grant type',
    'The grant types are client_credentials and urn:ietf:params:oauth:grant-type:token-exchange.',
  ],
  invalid_subject_token: [
    400,
    'Invalid subject token',
    'The subject token is malformed, expired, revoked, superseded or not an access token for this service.',
  ],
  invalid_target: [400, 'Invalid target', 'No token is issued for this audience.'],
  token_missing: [401, 'Token missing', 'The request carries no bearer token.'],
  invalid_token: [
    401,
    'Invalid token',
    'The token is malformed, not ours, for another audience, of the wrong type, expired, superseded or revoked.',
  ],
  token_reused: [401, 'Token reused', 'The refresh token was already used, so its session has been ended.'],
  token_unknown: [401, 'Token unknown', 'The account has no such token.'],
  invalid_credentials: [401, 'Invalid credentials', 'The username or the password is wrong.'],
  invalid_reset_token: [
    401,
    'Invalid reset token',
    'The reset token is unknown, used, replaced, voided or expired.',
  ],
  invalid_verification_token: [
    401,
    'Invalid verification token',
    'The verification token is unknown, used, replaced, voided or expired.',
  ],
  second_factor_required: [
    401,
    'Second factor required',
    'The password is right, and the account has a second factor: go on at /api/auth/second-factor.',
  ],
  invalid_login_token: [
    401,
    'Invalid login token',
    'The login token is unknown, void or older than five minutes: log in again.',
  ],
  invalid_second_factor: [401, 'Invalid second factor', 'The code is wrong or was used before.'],
  invalid_passkey: [
    401,
    'Invalid passkey',
    'The answer of the passkey is not good here, too old, or was used before.',
  ],
  passkey_unknown: [
    401,
    'Passkey unknown',
    'The account no longer has this passkey; the browser may be told (signalUnknownCredential).',
  ],
  invalid_client: [
    401,
    'Invalid client',
    'The request does not carry the credentials of a registered service that is enabled.',
  ],
  insufficient_user_authentication: [
    401,
    'Insufficient user authentication',
    'The token is good, but more is demanded of its login here: log in again, with a second factor if acr_values asks for one; see WWW-Authenticate.',
  ],
  token_not_allowed: [403, 'Token not allowed', 'A long-lived or limited token may not do this.'],
  insufficient_scope: [
    403,
    'Insufficient scope',
    'A limited token is good only where scopes are needed and it has all of them; WWW-Authenticate names those that are needed here, if any.',
  ],
  signup_disabled: [403, 'Signup disabled', 'New accounts cannot be opened here.'],
  llt_disabled: [403, 'Long-lived tokens disabled', 'Long-lived tokens cannot be created here.'],
  login_too_old: [
    403,
    'Login too old',
    'The session was opened too long ago for this, or without the second factor; log in again and use the new session.',
  ],
  factors_disabled: [403, 'Second factors disabled', 'Second factors cannot be added here.'],
  email_not_verified: [
    403,
    'E-mail address not verified',
    'The account’s e-mail address has to be verified before this.',
  ],
  right_missing: [403, 'Right missing', 'The registered service lacks the right to do this.'],
  origin_not_listed: [
    403,
    'Origin not listed',
    'Scripts of this origin may not call this API: CORS_ORIGINS does not list it.',
  ],
  user_unknown: [404, 'User unknown', 'There is no such account.'],
  factor_unknown: [404, 'Factor unknown', 'The account has no such second factor.'],
  not_found: [404, 'Not found', 'There is nothing at this path.'],
  method_not_allowed: [405, 'Method not allowed', 'The path does not support this method; see Allow.'],
  request_timeout: [408, 'Request timeout', 'The request did not arrive in time.'],
  body_too_large: [413, 'Body too large', 'The body is larger than 16 KiB.'],
  unsupported_media_type: [
    415,
    'Unsupported media type',
    'The body has a type that this operation does not take.',
  ],
  expectation_failed: [417, 'Expectation failed', 'The Expect header has an unknown value.'],
  rate_limited: [
    429,
    'Too many requests',
    'Too many of these requests, or wrong passwords, for this address, network or account; see Retry-After.',
  ],
  headers_too_large: [431, 'Headers too large', 'The headers are larger than 16 KiB.'],
  internal_error: [500, 'Internal error', 'Something went wrong on our side.'],
  unavailable: [
    503,
    'Unavailable',
    'The service cannot answer now; it is safe to repeat the request. See Retry-After.',
  ],
  overloaded: [503, 'Overloaded', 'The service is too busy for this request; see Retry-After.'],
  refresh_overlap: [
    503,
    'Refresh overlap',
    'Another refresh of this session was a moment earlier; see Retry-After.',
  ],
} as const satisfies Record<ErrorCode, readonly [status: number, title: string, detail: string]>;

/** Limits the errors in one answer: a client needs only the first few. */
export const MAX_FIELD_ERRORS = 10;

/** The schema of a problem, for the reference. */
export const ProblemSchema = Type.Object(
  {
    type: Type.String({ description: 'The code as a URI, which leads nowhere', format: 'uri' }),
    title: Type.String({ description: 'The code in words' }),
    status: Type.Integer({ description: 'The HTTP status' }),
    detail: Type.String({ description: 'What is wrong, for people' }),
    code: Type.Enum(ERROR_CODES, {
      type: 'string',
      description: 'What is wrong, for programs. Branch on this member alone',
    }),
    request_id: Type.String({ description: 'The answer’s `X-Request-Id`' }),
    errors: Type.Optional(
      Type.Array(
        Type.Object(
          {
            path: Type.String({
              description: 'A JSON pointer into the body, or `params/id`, `query/id` and the like',
            }),
            code: Type.Enum(FIELD_CODES, {
              type: 'string',
              description: 'What is wrong with it, for programs. The list may grow',
            }),
            params: Type.Optional(
              Type.Object(
                {
                  min: Type.Optional(Type.Integer({ description: 'The fewest characters, of `too_short`' })),
                  max: Type.Optional(
                    Type.Integer({
                      description: 'The most characters, of `too_long`, or items, of `too_many`',
                    }),
                  ),
                },
                { description: 'The limit of the field', additionalProperties: false },
              ),
            ),
            message: Type.String({ description: 'What is wrong with it, for people; may change' }),
          },
          { title: 'FieldError', additionalProperties: false },
        ),
        { description: 'The fields that were refused', maxItems: MAX_FIELD_ERRORS },
      ),
    ),
    reason: Type.Optional(
      Type.Enum([...new Set(Object.values(REFUSAL_REASONS).flat())], {
        type: 'string',
        description: 'Why exactly, for developers; absent in production',
      }),
    ),
  },
  { title: 'Problem', description: 'Problem details (RFC 9457)', additionalProperties: false },
);

/** The schema of a refused login, for the reference. */
export const LoginProblemSchema = Type.Object(
  {
    ...ProblemSchema.properties,
    login_token: Type.Optional(
      Type.String({
        description: 'For the second step of the login; with `second_factor_required` only, as the next two',
        readOnly: true,
      }),
    ),
    methods: Type.Optional(
      Type.Array(
        Type.Enum([...SECOND_STEPS], {
          type: 'string',
          description:
            '`totp`: a code of the authenticator app; `passkey`: not here, but as a login of its own. The list may grow',
        }),
        { description: 'What the second step takes from this user' },
      ),
    ),
    expires_at: Type.Optional({ ...Timestamp, description: 'Until when; RFC 3339, in UTC' }),
  },
  {
    title: 'LoginProblem',
    description: 'Problem details, with what the second step of a login takes',
    additionalProperties: false,
  },
);

/** The members that `second_factor_required` adds to a problem. */
export function secondStepMembers({ loginToken, methods, expiresAt }: SecondStepNeeded): object {
  return { login_token: loginToken, methods, expires_at: timestamp(expiresAt) };
}

export const PROBLEM_TYPE = 'application/problem+json';

/** What is wrong, for people. @param right the one that `right_missing` names. */
export function detailOf(code: ErrorCode, right?: Right): string {
  const [, , detail] = PROBLEMS[code];
  return right ? `The registered service lacks the right ${right}.` : detail;
}

/** The body of an error. `type` is a URI that cannot be fetched, as RFC 9457, section 3.1.1, allows. */
export function problemOf(code: ErrorCode, requestId: string, errors?: FieldError[], right?: Right): Problem {
  const [status, title] = PROBLEMS[code];
  return {
    type: `urn:latchkey:error:${code}`,
    title,
    status,
    detail: detailOf(code, right),
    code,
    request_id: requestId,
    ...(errors && { errors }),
  };
}

/**
 * The headers that go with an error: the challenge of RFC 6750, section 3, or RFC 9470, and when to retry.
 * @param spread seconds added to Retry-After (retry-spread.ts).
 */
export function problemHeaders(
  {
    code,
    retryAfter,
    scopes,
    demand,
  }: Pick<AuthError, 'code' | 'retryAfter'> & Partial<Pick<AuthError, 'scopes' | 'demand'>>,
  spread = 0,
): Record<string, string> {
  const [status] = PROBLEMS[code];
  const headers: Record<string, string> = { 'cache-control': 'no-store' };
  if (status === 401) headers['www-authenticate'] = challengeOf(code, demand ?? null);
  if (scopes) headers['www-authenticate'] = scopeChallengeOf(scopes);
  if (status === 429 || status === 503) headers['retry-after'] = String((retryAfter ?? 1) + spread);
  return headers;
}

/** The challenge for services, which send a secret; all other callers send a token. */
export const BASIC_CHALLENGE = 'Basic realm="latchkey", charset="UTF-8"';

/** @param scopes none where no token with scopes is good. */
function scopeChallengeOf(scopes: readonly string[]): string {
  return `Bearer error="insufficient_scope"${scopes.length > 0 ? `, scope="${scopes.join(' ')}"` : ''}`;
}

/** `invalid_token` only if the token itself is the reason: on `invalid_token`, a client refreshes and retries. */
function challengeOf(code: ErrorCode, demand: Demand | null): string {
  if (code === 'invalid_client') return BASIC_CHALLENGE;
  if (code === 'insufficient_user_authentication') {
    const acr = demand?.acr ? `, acr_values="${demand.acr}"` : '';
    const maxAge = demand?.maxAge ? `, max_age="${demand.maxAge}"` : '';
    return `Bearer error="${code}"${acr}${maxAge}`;
  }
  return code === 'invalid_token' || code === 'token_reused' ? 'Bearer error="invalid_token"' : 'Bearer';
}
