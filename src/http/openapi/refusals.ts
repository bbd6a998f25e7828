import type { ErrorCode, FieldError } from '../../domain/errors.ts';
import { oauthMembersOf } from '../oauth-error.ts';
import { PROBLEM_TYPE, PROBLEMS, problemOf } from '../problem.ts';
import type { JsonObject } from './json.ts';
import type { Described } from './operation.ts';

/** The ways in which an operation refuses, as responses of the document. */

type Route = Pick<Described, 'security' | 'refuses'> & {
  consumes?: readonly string[] | undefined;
  method: string;
  /** Whether anything of the request is checked against a schema. */
  isValidated: boolean;
};

/** What Node and Fastify refuse whatever the route. */
const ALWAYS: ErrorCode[] = [
  'bad_request',
  'request_timeout',
  'expectation_failed',
  'headers_too_large',
  'internal_error',
];

/** Those of them that are refused before there is a route; `bad_request` is so at times. */
const WITHOUT_ROUTE: ErrorCode[] = ['request_timeout', 'expectation_failed', 'headers_too_large'];

/** A GET's body is never read. */
const WITH_BODY: ErrorCode[] = ['body_too_large', 'unsupported_media_type'];

/** Whoever looks at a token asks a store. */
const WITH_TOKEN: ErrorCode[] = ['token_missing', 'invalid_token', 'unavailable'];

/** Whoever is asked for a secret may have got it a moment ago: the record is asked. */
const WITH_CLIENT: ErrorCode[] = ['invalid_client', 'unavailable'];

const EXAMPLE_ERRORS: Partial<Record<ErrorCode, FieldError[]>> = {
  validation_failed: [{ path: '/device', message: 'is required' }],
  password_refused: [{ path: '/password', message: 'is one of the commonest passwords' }],
};

const EXAMPLE_FORM_ERRORS: FieldError[] = [{ path: '/token', message: 'is required' }];

const EXAMPLE_ID = '3f0c1d52-7a8e-4a44-9a53-5d6f3c1b2a90';

/** Every code with which a route may answer. */
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

/** The same by status, in ascending order. */
export function byStatus(codes: ErrorCode[]): [status: number, codes: ErrorCode[]][] {
  const statuses = [...new Set(codes.map((code) => PROBLEMS[code][0]))].sort((a, b) => a - b);
  return statuses.map((status) => [status, codes.filter((code) => PROBLEMS[code][0] === status)]);
}

/**
 * @param codes all of this status.
 * @param speaksOAuth whether it holds the members of RFC 6749 too (see oauth-error.ts).
 */
export function problemResponse(status: number, codes: ErrorCode[], speaksOAuth: boolean): JsonObject {
  const media = {
    schema: {
      allOf: [
        ref('schemas', speaksOAuth ? 'OAuthProblem' : 'Problem'),
        {
          type: 'object',
          properties: { status: { const: status }, code: { enum: codes } },
          // The one code that is given with and without a route.
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

/** Whether an answer with these codes has the members of RFC 6749 on a route that speaks OAuth. */
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

/** The name of the component that a refusal with one code is: `headers_too_large` is `HeadersTooLarge`. */
export function componentName(code: ErrorCode): string {
  return code.replace(/(?:^|_)(.)/g, (_, letter: string) => letter.toUpperCase());
}

export function ref(kind: 'headers' | 'schemas' | 'responses' | 'parameters', name: string): JsonObject {
  return { $ref: `#/components/${kind}/${name}` };
}

/** Of every answer. */
export const COMMON_HEADERS = {
  'X-Request-Id': ref('headers', 'RequestId'),
  'Cache-Control': ref('headers', 'CacheControl'),
};
