import type { LightMyRequestResponse } from 'fastify';
import { bearer, call, type Target } from './client.ts';
import { aRegisteredService, postForm, type TestService } from './registered-service.ts';

export const TOKEN_EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange';
export const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token';

/** The form of an exchange. A parameter that is '' counts as missing. */
export function exchangeForm(subject: string, audience: string, other: Record<string, string> = {}) {
  return {
    grant_type: TOKEN_EXCHANGE,
    subject_token: subject,
    subject_token_type: ACCESS_TOKEN,
    audience,
    ...other,
  };
}

/** Asks for a token for `audience`: as `by`, or as the user, whose bearer is the subject token. */
export function exchange(
  target: Target,
  subject: string,
  { audience = 'orders', by = null }: { audience?: string; by?: TestService | null } = {},
  other: Record<string, string> = {},
): Promise<LightMyRequestResponse> {
  const headers: Record<string, string> = by ? {} : bearer(subject);
  return postForm(target, '/api/auth/token', by, exchangeForm(subject, audience, other), headers);
}

/** The token of a successful exchange. */
export async function exchanged(...args: Parameters<typeof exchange>): Promise<string> {
  const response = await exchange(...args);
  if (response.statusCode !== 200) throw new Error(`no token: ${response.statusCode} ${response.body}`);
  return response.json<{ access_token: string }>().access_token;
}

/** The addresses at which a proxy checks a token for one audience: those with the query, and with the path. */
export function audiencePaths(audience = 'orders'): string[] {
  const below = `/api/auth/audiences/${audience}/verify`;
  return [`/api/auth/verify?audience=${audience}`, below, `${below}/`, `${below}/items/7?audience=shop`];
}

/** The statuses at all of them. */
export async function verifyFor(target: Target, token: string, audience = 'orders'): Promise<number[]> {
  const paths = audiencePaths(audience);
  return Promise.all(paths.map(async (path) => (await call(target, `GET ${path}`, { token })).statusCode));
}

/** The client of the audience `orders`, and one that may exchange tokens. */
export async function audienceClients(databaseUrl: string) {
  const orders = await aRegisteredService(databaseUrl, 'orders', ['introspect', 'revoke'], 'orders');
  const gateway = await aRegisteredService(databaseUrl, 'gateway', ['exchange', 'introspect', 'revoke']);
  return { orders, gateway };
}
