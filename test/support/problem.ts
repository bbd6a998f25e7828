import type { LightMyRequestResponse } from 'fastify';
import type { Test } from 'tap';
import { FIELD_CODES, type ErrorCode, type FieldError } from '../../src/domain/errors.ts';
import { REFUSAL_REASONS, type RefusalReason } from '../../src/domain/refusal-reasons.ts';

/** The parts of an answer that checks need, from `inject`, `fetch` or a raw socket. */
export interface Answer {
  status: number;
  header: (name: string) => string | undefined;
  body: string;
}

/** The codes that blame the token itself (RFC 6750, section 3.1). */
const TOKEN_AT_FAULT: readonly ErrorCode[] = ['invalid_token', 'token_reused'];

/** Challenges that say what is needed. */
const CHALLENGES: Partial<Record<ErrorCode, RegExp>> = {
  insufficient_scope: /^Bearer error="insufficient_scope"(, scope="[a-z0-9:_-]+( [a-z0-9:_-]+)*")?$/,
  insufficient_user_authentication:
    /^Bearer error="insufficient_user_authentication"(, acr_values="(mfa|phr)")?(, max_age="[1-9]\d*")?$/,
};

/** Checks an answer of `inject` against the contract for errors. */
export function refused(
  t: Test,
  response: LightMyRequestResponse,
  status: number,
  code: ErrorCode,
  paths?: string[],
  oauth?: string,
): void {
  const header = (name: string) => response.headers[name]?.toString();
  assertProblem(t, { status: response.statusCode, header, body: response.body }, status, code, paths, oauth);
}

/** `error` of RFC 6749, section 5.2, for our own code; for any other it is `invalid_request`. */
const OAUTH_ERRORS: Partial<Record<ErrorCode, string>> = {
  invalid_client: 'invalid_client',
  invalid_token: 'invalid_token',
  right_missing: 'unauthorized_client',
  unsupported_grant_type: 'unsupported_grant_type',
  invalid_target: 'invalid_target',
  unavailable: 'temporarily_unavailable',
};

/** As `refused`, on a route for OAuth clients. */
export function refusedForOAuth(
  t: Test,
  response: LightMyRequestResponse,
  status: number,
  code: ErrorCode,
  paths?: string[],
): void {
  refused(t, response, status, code, paths, OAUTH_ERRORS[code] ?? 'invalid_request');
}

/**
 * @param paths of `errors`, in any order; without it they are not checked.
 * @param oauth `error` of RFC 6749, section 5.2, on routes for OAuth clients; on other routes it must be missing.
 */
export function assertProblem(
  t: Test,
  { status: actual, header, body }: Answer,
  status: number,
  code: ErrorCode,
  paths?: string[],
  oauth?: string,
): void {
  const problem = parse(body);
  if (!t.equal(actual, status, `${status} ${code}: ${body}`)) return;
  t.equal(header('content-type')?.split(';')[0], 'application/problem+json', 'is a problem (RFC 9457)');
  t.match(problem, {
    type: `urn:latchkey:error:${code}`,
    title: /^[A-Z]/,
    status,
    detail: /\.$/,
    code,
    request_id: header('x-request-id') ?? 'X-Request-Id is missing',
  });
  // Outside production, as in tests.
  const reasons: readonly RefusalReason[] =
    code in REFUSAL_REASONS ? REFUSAL_REASONS[code as keyof typeof REFUSAL_REASONS] : [];
  if (problem.reason !== undefined)
    t.ok(reasons.includes(problem.reason), `may have the reason ${problem.reason}`);
  const known = [
    'type',
    'title',
    'status',
    'detail',
    'code',
    'request_id',
    'errors',
    ...(reasons.length > 0 ? ['reason'] : []),
    ...(oauth === undefined ? [] : ['error', 'error_description']),
    ...(code === 'second_factor_required' ? ['login_token', 'methods', 'expires_at'] : []),
  ];
  if (oauth !== undefined) t.match(problem, { error: oauth, error_description: /\.$/ });
  t.strictSame(
    Object.keys(problem).filter((key) => !known.includes(key)),
    [],
    'holds nothing else',
  );
  if (CHALLENGES[code]) t.match(header('www-authenticate'), CHALLENGES[code], 'the challenge');
  else {
    const challenge = status === 401 ? challengeOf(code) : undefined;
    t.equal(header('www-authenticate'), challenge, 'the challenge');
  }
  if (status === 429 || status === 503)
    t.match(header('retry-after'), /^[1-9]\d*$/, 'says when to come back');
  else t.equal(header('retry-after'), undefined, 'no Retry-After');
  t.equal(header('cache-control'), 'no-store', 'no cache keeps it');
  if (code === 'validation_failed' || code.endsWith('_taken'))
    t.ok(problem.errors?.length, 'says what is wrong');
  for (const { code: field, params, message } of problem.errors ?? []) {
    t.ok(FIELD_CODES.includes(field), `${field} is a code`);
    t.equal(
      params !== undefined,
      ['too_short', 'too_long', 'too_many'].includes(field),
      `${field}: its limit`,
    );
    t.ok(message, 'for people');
  }
  if (paths) t.strictSame(problem.errors?.map(({ path }) => path).sort(), [...paths].sort(), 'and where');
}

function challengeOf(code: ErrorCode): string {
  if (code === 'invalid_client') return 'Basic realm="latchkey", charset="UTF-8"';
  return TOKEN_AT_FAULT.includes(code) ? 'Bearer error="invalid_token"' : 'Bearer';
}

interface ProblemBody {
  errors?: FieldError[];
  reason?: RefusalReason;
}

function parse(body: string): ProblemBody {
  try {
    return JSON.parse(body) as ProblemBody;
  } catch {
    return {};
  }
}
