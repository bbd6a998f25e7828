import type { ErrorCode, FieldError } from '../../domain/errors.ts';
import { oauthMembersOf } from '../oauth-error.ts';
import { PROBLEM_TYPE, PROBLEMS, problemOf } from '../problem.ts';
import type { JsonObject } from './json.ts';
import type { Described } from './operation.ts';

/** The error responses of operations in the document. */

type Route = Pick<Described, 'security' | 'refuses'> & {
  consumes?: readonly string[] | undefined;
  method: string;
  /** Whether a part of the request is validated against a schema. */
  isValidated: boolean;
};

/** Errors that Node and Fastify return on every route. */
const ALWAYS: ErrorCode[] = [
  'bad_request',
  'request_timeout',
  'expectation_failed',
  'headers_too_large',
  'internal_error',
];

/** Those of them that occur before routing; `bad_request` sometimes does. */
const WITHOUT_ROUTE: ErrorCode[] = ['request_timeout', 'expectation_failed', 'headers_too_large'];

/** A GET's body is never read. */
const WITH_BODY: ErrorCode[] = ['body_too_large', 'unsupported_media_type'];

/** A route that checks a token queries a store. */
const WITH_TOKEN: ErrorCode[] = ['token_missing', 'invalid_token', 'unavailable'];

/** An unknown secret may be new, so the database is queried. */
const WITH_CLIENT: ErrorCode[] = ['invalid_client', 'right_missing', 'unavailable'];

const EXAMPLE_ERRORS: Partial<Record<ErrorCode, FieldError[]>> = {
  validation_failed: [{ path: '/device', message: 'is required' }],
  password_refused: [
    { path: '/password', message: 'is one of the commonest passwords, or too close to one' },
  ],
};

const EXAMPLE_FORM_ERRORS: FieldError[] = [{ path: '/token', message: 'is required' }];

const EXAMPLE_ID = '3f0c1d52-7a8e-4a44-9a53-5d6f3c1b2a90';

/** Every error code of a route. */
export function codesOf({ method, consumes, isValidated, security, refuses }: Route): ErrorCode[] {
  const takesToken = security.some((scheme) => 'bearerAuth' in scheme || 'bearerRefreshToken' in scheme);
  return [
    ...new Set([
      ...ALWAYS,
      ...(method === 'get' || consumes ? [] : (['malformed_json'] as const)),
      ...(method === 'get' ? [] : WITH_BODY),
      ...(isValidated ? (['validation_failed'] as const) : []),
      ...(takesToken ? WITH_TOKEN : []),
      ...(security.some((scheme) => 'serviceClient' in scheme) ? WITH_CLIENT : []),
      ...refuses,
    ]),
  ];
}

/** Groups codes by status, in ascending order. */
export function byStatus(codes: ErrorCode[]): [status: number, codes: ErrorCode[]][] {
  const statuses = [...new Set(codes.map((code) => PROBLEMS[code][0]))].sort((a, b) => a - b);
  return statuses.map((status) => [status, codes.filter((code) => PROBLEMS[code][0] === status)]);
}

/**
 * @param codes all of this status.
 * @param speaksOAuth whether it also has the members of RFC 6749 (see oauth-error.ts).
 */
export function problemResponse(status: number, codes: ErrorCode[], speaksOAuth: boolean): JsonObject {
  const media = {
    schema: {
      allOf: [
        ref('schemas', speaksOAuth ? 'OAuthProblem' : 'Problem'),
        {
          type: 'object',
          properties: { status: { const: status }, code: { enum: codes } },
          // Only `bad_request` occurs with and without a route.
          ...(speaksOAuth && !codes.includes('bad_request') && { required: ['error', 'error_description'] }),
        },
      ],
    },
    examples: Object.fromEntries(codes.map((code) => [code, exampleOf(code, speaksOAuth)])),
  };
  return {
    description: codes.map((code) => `- \`${code}\`: ${PROBLEMS[code][2]}`).join('\n'),
    headers: {
      ...COMMON_HEADERS,
      ...(status === 401 && { 'WWW-Authenticate': ref('headers', challengeOf(codes)) }),
      ...((status === 429 || status === 503) && { 'Retry-After': ref('headers', 'RetryAfter') }),
    },
    content: { [PROBLEM_TYPE]: media, ...(speaksOAuth && { 'application/json': media }) },
  };
}

/** Whether any of these codes can occur after routing, and so has the members of RFC 6749 on an OAuth route. */
export function isRouted(codes: ErrorCode[]): boolean {
  return codes.some((code) => !WITHOUT_ROUTE.includes(code));
}

function exampleOf(code: ErrorCode, speaksOAuth: boolean): JsonObject {
  const errors = speaksOAuth && code === 'validation_failed' ? EXAMPLE_FORM_ERRORS : EXAMPLE_ERRORS[code];
  const problem = problemOf(code, EXAMPLE_ID, errors);
  return {
    summary: PROBLEMS[code][1],
    value: { ...problem, ...(speaksOAuth && oauthMembersOf(code)) },
  };
}

function challengeOf(codes: ErrorCode[]): string {
  return codes.includes('invalid_client') ? 'BasicChallenge' : 'Challenge';
}

/** The component's name for a code: `headers_too_large` becomes `HeadersTooLarge`. */
export function componentName(code: ErrorCode): string {
  return code.replace(/(?:^|_)(.)/g, (_, letter: string) => letter.toUpperCase());
}

export function ref(kind: 'headers' | 'schemas' | 'responses' | 'parameters', name: string): JsonObject {
  return { $ref: `#/components/${kind}/${name}` };
}

/** Headers of every answer. */
export const COMMON_HEADERS = {
  'X-Request-Id': ref('headers', 'RequestId'),
  'Cache-Control': ref('headers', 'CacheControl'),
};
