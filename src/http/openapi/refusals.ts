import type { ErrorCode, FieldError } from '../../domain/errors.ts';
import { takenErrors } from '../../domain/users/taken.ts';
import { oauthMembersOf } from '../oauth-error.ts';
import { PROBLEM_TYPE, PROBLEMS, problemOf, secondStepMembers } from '../problem.ts';
import { LOGIN_TOKEN } from '../schemas.ts';
import type { JsonObject } from './json.ts';
import type { Described } from './operation.ts';

/** The error responses of operations in the document. */

type Route = Pick<Described, 'security' | 'refuses' | 'takesLimited'> & {
  consumes?: readonly string[] | undefined;
  method: string;
  /** Whether a part of the request is validated against a schema. */
  isValidated: boolean;
};

/** Errors that Node and Fastify return on every route, and that of a replica that may not serve (plugins/standing.ts). */
const ALWAYS: ErrorCode[] = [
  'bad_request',
  'request_timeout',
  'expectation_failed',
  'headers_too_large',
  'internal_error',
  'unavailable',
];

/** Those of them that occur before routing; `bad_request` sometimes does. */
const WITHOUT_ROUTE: ErrorCode[] = ['request_timeout', 'expectation_failed', 'headers_too_large'];

/** A GET's body is never read. */
const WITH_BODY: ErrorCode[] = ['body_too_large', 'unsupported_media_type'];

/** What no operation decides: described together as `4XX`, so that the page shows a row for it and not five. */
const UNREAD: ErrorCode[] = [
  'request_timeout',
  'body_too_large',
  'unsupported_media_type',
  'expectation_failed',
  'headers_too_large',
];

const WITH_TOKEN: ErrorCode[] = ['token_missing', 'invalid_token'];

const WITH_SERVICE: ErrorCode[] = ['invalid_client', 'invalid_token', 'right_missing'];

const EXAMPLE_ERRORS: Partial<Record<ErrorCode, FieldError[]>> = {
  validation_failed: [{ path: '/device', code: 'required', message: 'is required' }],
  password_refused: [
    { path: '/password', code: 'common', message: 'is one of the commonest passwords, or too close to one' },
  ],
  username_taken: takenErrors(['username', 'email']),
  email_taken: takenErrors(['email']),
  external_id_taken: takenErrors(['external_id']),
};

const EXAMPLE_SECOND_STEP = {
  loginToken: LOGIN_TOKEN,
  methods: ['totp', 'recovery_code'],
  expiresAt: Date.UTC(2026, 0, 2, 3, 4, 5, 678),
} as const;

const EXAMPLE_FORM_ERRORS: FieldError[] = [{ path: '/token', code: 'required', message: 'is required' }];

const EXAMPLE_ID = '3f0c1d52-7a8e-4a44-9a53-5d6f3c1b2a90';

/** Every error code of a route. */
export function codesOf({
  method,
  consumes,
  isValidated,
  security,
  refuses,
  takesLimited,
}: Route): ErrorCode[] {
  const takesToken = security.some((scheme) => 'bearerAuth' in scheme || 'bearerRefreshToken' in scheme);
  const isForUsers = security.length > 0 && security.every((scheme) => 'bearerAuth' in scheme);
  return [
    ...new Set([
      ...ALWAYS,
      ...(method === 'get' || consumes ? [] : (['malformed_json'] as const)),
      ...(method === 'get' ? [] : WITH_BODY),
      ...(isValidated ? (['validation_failed'] as const) : []),
      ...(takesToken ? WITH_TOKEN : []),
      ...(isForUsers && !takesLimited ? (['insufficient_scope'] as const) : []),
      ...(security.some((scheme) => 'serviceClient' in scheme) ? WITH_SERVICE : []),
      ...refuses,
    ]),
  ];
}

/** Groups codes by status, in ascending order. Those that no operation decides come last, as a range. */
export function byStatus(codes: ErrorCode[]): [status: number | '4XX', codes: ErrorCode[]][] {
  const decided = codes.filter((code) => !UNREAD.includes(code));
  return [
    ...statusesOf(decided).map((status): [number, ErrorCode[]] => [
      status,
      decided.filter((code) => PROBLEMS[code][0] === status),
    ]),
    ['4XX', UNREAD.filter((code) => codes.includes(code))],
  ];
}

function statusesOf(codes: ErrorCode[]): number[] {
  return [...new Set(codes.map((code) => PROBLEMS[code][0]))].sort((a, b) => a - b);
}

/**
 * @param codes all of one status, or of a range.
 * @param speaksOAuth whether it also has the members of RFC 6749 (see oauth-error.ts).
 */
export function problemResponse(codes: ErrorCode[], speaksOAuth: boolean): JsonObject {
  const statuses = statusesOf(codes);
  const [status] = statuses;
  const isRange = statuses.length > 1;
  const media = {
    schema: {
      allOf: [
        ref('schemas', schemaOf(codes, speaksOAuth)),
        {
          type: 'object',
          properties: { status: isRange ? { enum: statuses } : { const: status }, code: { enum: codes } },
          ...(speaksOAuth && codes.every(isAlwaysRouted) && { required: ['error', 'error_description'] }),
        },
      ],
    },
    examples: Object.fromEntries(codes.map((code) => [code, exampleOf(code, speaksOAuth)])),
  };
  return {
    description: codes
      .map((code) => `- \`${code}\`${isRange ? ` (${PROBLEMS[code][0]})` : ''}: ${PROBLEMS[code][2]}`)
      .join('\n'),
    headers: {
      ...COMMON_HEADERS,
      ...(status === 401 && { 'WWW-Authenticate': ref('headers', challengeOf(codes)) }),
      ...(codes.includes('insufficient_scope') && { 'WWW-Authenticate': ref('headers', 'ScopeChallenge') }),
      ...((status === 429 || status === 503) && { 'Retry-After': ref('headers', 'RetryAfter') }),
    },
    content: { [PROBLEM_TYPE]: media, ...(speaksOAuth && { 'application/json': media }) },
  };
}

/** Whether any of these codes can occur after routing, and so has the members of RFC 6749 on an OAuth route. */
export function isRouted(codes: ErrorCode[]): boolean {
  return codes.some((code) => !WITHOUT_ROUTE.includes(code));
}

/** `bad_request` occurs with and without a route. */
function isAlwaysRouted(code: ErrorCode): boolean {
  return code !== 'bad_request' && isRouted([code]);
}

function exampleOf(code: ErrorCode, speaksOAuth: boolean): JsonObject {
  const errors = speaksOAuth && code === 'validation_failed' ? EXAMPLE_FORM_ERRORS : EXAMPLE_ERRORS[code];
  const problem = problemOf(code, EXAMPLE_ID, errors);
  return {
    summary: PROBLEMS[code][1],
    value: {
      ...problem,
      ...(code === 'second_factor_required' && secondStepMembers(EXAMPLE_SECOND_STEP)),
      ...(speaksOAuth && isRouted([code]) && oauthMembersOf(code, problem.detail)),
    },
  };
}

function schemaOf(codes: ErrorCode[], speaksOAuth: boolean): string {
  if (speaksOAuth) return 'OAuthProblem';
  return codes.includes('second_factor_required') ? 'LoginProblem' : 'Problem';
}

function challengeOf(codes: ErrorCode[]): string {
  if (codes.includes('insufficient_user_authentication')) return 'ProofChallenge';
  return codes.includes('invalid_client') ? 'ServiceChallenge' : 'Challenge';
}

/**
 * The component's name for a response that is the same everywhere: the range, and a status with a single code
 * (`user_unknown` becomes `UserUnknown`). Null for others.
 */
export function componentName(codes: ErrorCode[]): string | null {
  const [code = '', ...others] = codes;
  if (codes.includes('request_timeout')) return codes.includes('body_too_large') ? 'BodyUnread' : 'Unread';
  return others.length > 0 ? null : code.replace(/(?:^|_)(.)/g, (_, letter: string) => letter.toUpperCase());
}

export function ref(kind: 'headers' | 'schemas' | 'responses' | 'parameters', name: string): JsonObject {
  return { $ref: `#/components/${kind}/${name}` };
}

/** Headers of every answer. */
export const COMMON_HEADERS = {
  'X-Request-Id': ref('headers', 'RequestId'),
  'Cache-Control': ref('headers', 'CacheControl'),
};
