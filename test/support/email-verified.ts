import type { TestApp } from './app.ts';
import { claimsOf } from './client.ts';
import { introspect, type TestService } from './registered-service.ts';

/** What introspection says of the address of a token's user. @throws Error unless the token is good. */
export async function saidOfAddress(target: TestApp, service: TestService, token: string): Promise<boolean> {
  const { statusCode, body } = await introspect(target, service, token);
  if (statusCode !== 200) throw new Error(`no introspection: ${statusCode} ${body}`);
  const said = JSON.parse(body) as Record<string, unknown>;
  if (said.active !== true) throw new Error('the token is not active');
  if (body.split('"email_verified"').length > 2) throw new Error('it is told twice');
  return isVerified(said);
}

/** What a token itself says. */
export const claimOfAddress = (token: string): boolean => isVerified(claimsOf(token));

/** True, or nothing at all. */
function isVerified(said: Record<string, unknown>): boolean {
  if (!('email_verified' in said)) return false;
  if (said.email_verified !== true) throw new Error(`email_verified is ${String(said.email_verified)}`);
  return true;
}
