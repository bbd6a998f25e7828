import type { FastifyRequest } from 'fastify';
import Type from 'typebox';
import type { ErrorCode } from '../domain/errors.ts';
import { PROBLEM_TYPE, ProblemSchema, type Problem } from './problem.ts';

/**
 * The error names of RFC 6749, sections 4.1.2.1 and 5.2, and RFC 8693, section 2.2.2. Any other code of ours becomes
 * `invalid_request`.
 */
const OAUTH_CODES: Partial<Record<ErrorCode, string>> = {
  invalid_client: 'invalid_client',
  invalid_token: 'invalid_token',
  right_missing: 'unauthorized_client',
  unsupported_grant_type: 'unsupported_grant_type',
  invalid_target: 'invalid_target',
  unavailable: 'temporarily_unavailable',
  internal_error: 'server_error',
};

/** The members that OAuth clients read, in addition to the problem details. */
export function oauthMembers(request: FastifyRequest, { code, detail }: Problem): object {
  return speaksOAuth(request) ? oauthMembersOf(code, detail) : {};
}

export function oauthMembersOf(
  code: ErrorCode,
  detail: string,
): { error: string; error_description: string } {
  return { error: OAUTH_CODES[code] ?? 'invalid_request', error_description: detail };
}

/** The schema of such an error, for the reference. */
export const OAuthProblemSchema = Type.Object(
  {
    ...ProblemSchema.properties,
    error: Type.Optional(
      Type.Enum(['invalid_request', ...new Set(Object.values(OAUTH_CODES))], {
        type: 'string',
        description: 'The error code for OAuth libraries; absent only if the request is not valid HTTP',
      }),
    ),
    error_description: Type.Optional(Type.String({ description: 'The same text as `detail`' })),
  },
  {
    title: 'OAuthProblem',
    description: 'Problem details with the members of RFC 6749, section 5.2',
    additionalProperties: false,
  },
);

/** OAuth clients may accept `application/json` only: they get it if they accept that and no problem details. */
export function errorType(request: FastifyRequest): string {
  const { accept = '' } = request.headers;
  const asksForJson = /\bapplication\/json\b/i.test(accept) && !accept.toLowerCase().includes(PROBLEM_TYPE);
  return speaksOAuth(request) && asksForJson ? 'application/json' : PROBLEM_TYPE;
}

/** A request that failed before routing has no configuration. */
function speaksOAuth({ routeOptions }: FastifyRequest): boolean {
  const config = routeOptions.config as { oauthErrors?: boolean } | undefined;
  return config?.oauthErrors === true;
}
