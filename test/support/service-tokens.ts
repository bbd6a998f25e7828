import type { LightMyRequestResponse } from 'fastify';
import { bearer, type Target } from './client.ts';
import { postForm, type TestService } from './registered-service.ts';

/** Asks for a service token. A parameter that is '' counts as missing. */
export function askServiceToken(
  target: Target,
  client: TestService | null,
  audience = 'orders',
  other: Record<string, string> = {},
  headers: Record<string, string> = {},
): Promise<LightMyRequestResponse> {
  const form = { grant_type: 'client_credentials', audience, ...other };
  return postForm(target, '/api/auth/token', client, form, headers);
}

/** The token of a successful request. */
export async function serviceToken(...args: Parameters<typeof askServiceToken>): Promise<string> {
  const response = await askServiceToken(...args);
  if (response.statusCode !== 200) throw new Error(`no token: ${response.statusCode} ${response.body}`);
  return response.json<{ access_token: string }>().access_token;
}

/** Asks a form operation for registered services, with a service token as bearer. */
export function postAsService(target: Target, path: string, token: string, form: Record<string, string>) {
  return postForm(target, path, null, form, bearer(token));
}
