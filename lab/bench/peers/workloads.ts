import { inTurn, type Workload } from '../operations.ts';
import { requestText } from '../../../test/support/generator/requests.ts';

/** All connections ask about these tokens in turn (RFC 7662). */
export function introspecting(
  path: string,
  headers: Record<string, string>,
  tokens: readonly string[],
): Workload {
  return inTurn(tokens.map((token) => formPost(path, headers, { token, token_type_hint: 'access_token' })));
}

/** Every connection follows a refresh token of its own, from answer to answer (RFC 6749, section 6). */
export function rotating(path: string, headers: Record<string, string>, tokens: readonly string[]): Workload {
  const callers = tokens.map((first) => {
    let token = first;
    return {
      next: () => formPost(path, headers, { grant_type: 'refresh_token', refresh_token: token }),
      answered(body: string) {
        const { refresh_token: next } = JSON.parse(body) as { refresh_token?: string };
        // Without a new one, the next request fails.
        token = next === undefined || next === token ? '' : next;
      },
    };
  });
  return { callers };
}

function formPost(path: string, headers: Record<string, string>, fields: Record<string, string>): string {
  return requestText(`POST ${path}`, {
    headers: { 'Content-Type': 'application/x-www-form-urlencoded', ...headers },
    body: new URLSearchParams(fields).toString(),
  });
}
