/** The answer to a login, a signup or a refresh. */
export interface Pair {
  access_token: string;
  refresh_token: string;
  user: { id: number; username: string; name: string; created_at: string };
}

/** The claims of a token, unverified. */
export function claimsOf(token: string): Record<string, unknown> {
  const payload = Buffer.from(token.split('.')[1] ?? '', 'base64url').toString();
  return JSON.parse(payload) as Record<string, unknown>;
}
