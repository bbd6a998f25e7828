/** As Latchkey returns it. */
export interface User {
  id: number;
  username: string;
  name: string;
  created_at: string;
  /** Those of the last refresh. */
  roles: readonly string[];
}

/** An access token and a refresh token that were issued together. */
export interface Pair {
  access: string;
  refresh: string;
  user: User;
  /** The claim `sid`: which session. */
  session: number;
  /** The claim `gen`: of two pairs of a session, the greater one is the newer one. */
  generation: number;
  /** Milliseconds from the issue to the expiry of the access token. */
  lifetime: number;
  /** Milliseconds, by this device’s clock. */
  storedAt: number;
}

/** Milliseconds. A token is renewed before it expires. */
const EARLY = 30_000;
const YOUNG = 5000;

/** Reads an answer of Latchkey or a stored pair. @returns null if it is neither */
export function readPair(value: unknown): Pair | null {
  try {
    const { access_token, refresh_token, user, stored_at = Date.now() } = value as Record<string, unknown>;
    const { sid, gen, iat, exp } = claimsOf(access_token as string);
    const numbers = [sid, gen, iat, exp, stored_at, (user as User).id];
    if (!numbers.every(Number.isFinite) || typeof refresh_token !== 'string') return null;
    return {
      access: access_token as string,
      refresh: refresh_token,
      // A pair that was stored with Latchkey 1.0 has no roles.
      user: Object.freeze({ ...(user as User), roles: Object.freeze((user as Partial<User>).roles ?? []) }),
      session: sid as number,
      generation: gen as number,
      lifetime: ((exp as number) - (iat as number)) * 1000,
      storedAt: stored_at as number,
    };
  } catch {
    return null;
  }
}

export function writePair({ access, refresh, user, storedAt }: Pair): string {
  return JSON.stringify({ access_token: access, refresh_token: refresh, user, stored_at: storedAt });
}

/** Compares times of this device only: its clock and Latchkey’s may differ. After a jump of its clock, a token is renewed. */
export function isFresh({ lifetime, storedAt }: Pair): boolean {
  const age = Date.now() - storedAt;
  return age >= 0 && age < lifetime - Math.min(EARLY, lifetime / 4);
}

/** Whether a refresh is too recent to help against a 401. */
export function isYoung({ storedAt }: Pair): boolean {
  const age = Date.now() - storedAt;
  return age >= 0 && age < YOUNG;
}

function claimsOf(token: string): Record<string, unknown> {
  const [, payload = ''] = token.split('.');
  return JSON.parse(atob(payload.replace(/-/g, '+').replace(/_/g, '/'))) as Record<string, unknown>;
}
