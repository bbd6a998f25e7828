import type { FastifyRequest } from 'fastify';
import Type from 'typebox';
import type { ErrorCode } from '../domain/errors.ts';
import { PROBLEM_TYPE, PROBLEMS, ProblemSchema } from './problem.ts';

/** RFC 6749, section 5.2, where it has a name for it; everything else of ours is a request that is not understood. */
const OAUTH_CODES: Partial<Record<ErrorCode, string>> = {
  invalid_client: 'invalid_client',
  unavailable: 'temporarily_unavailable',
  internal_error: 'server_error',
};

/** What an OAuth client reads of an error, beside the problem that everybody gets. */
export function oauthMembers(request: FastifyRequest, code: ErrorCode): object {
  return speaksOAuth(request) ? oauthMembersOf(code) : {};
}

export function oauthMembersOf(code: ErrorCode): { error: string; error_description: string } {
  const [, , description] = PROBLEMS[code];
  return { error: OAUTH_CODES[code] ?? 'invalid_request', error_description: description };
}

/** Such an error, for the reference. */
export const OAuthProblemSchema = Type.Object(
  {
    ...ProblemSchema.properties,
    error: Type.Optional(
      Type.Enum(['invalid_request', ...new Set(Object.values(OAUTH_CODES))], {
        type: 'string',
        description: 'What is wrong, for OAuth’s libraries; missing only where there was no good HTTP',
      }),
    ),
    error_description: Type.Optional(Type.String({ description: 'What `detail` says' })),
  },
  {
    title: 'OAuthProblem',
    description: 'Problem details with the members of RFC 6749, section 5.2',
    additionalProperties: false,
  },
);

/** Such clients take JSON only under that name: they get it where they ask for it, and for no problem. */
export function errorType(request: FastifyRequest): string {
  const { accept = '' } = request.headers;
  const asksForJson = /\bapplication\/json\b/i.test(accept) && !accept.toLowerCase().includes(PROBLEM_TYPE);
  return speaksOAuth(request) && asksForJson ? 'application/json' : PROBLEM_TYPE;
}

/** Where a request failed before it had a route there is no configuration. */
function speaksOAuth({ routeOptions }: FastifyRequest): boolean {
  const config = routeOptions.config as { oauthErrors?: boolean } | undefined;
  return config?.oauthErrors === true;
}
