import { claimsOf, type Pair } from '../support/client.ts';
import type { TestService } from '../support/registered-service.ts';

/** The shared state of all requests: accounts, and the tokens in use. Each is lent to one request at a time. */

export interface Session {
  account: Account;
  id: number;
  access: string;
  refresh: string;
  /** Refresh tokens that have been exchanged. */
  stale: string[];
  longLived: { id: number; token: string }[];
}

export interface Account {
  username: string;
  name: string;
  email: string;
  password: string;
}

const MAX_SESSIONS = 200;

/** @param client a registered service. */
export function makeWorld(client: TestService) {
  const free: Session[] = [];
  const accounts: Account[] = [];
  return {
    client,
    free,
    accounts,
    /** Lends a session for exclusive use. @param alone only a session whose account has no other. */
    borrow(position: number, alone: boolean): Session | null {
      const found = alone ? free.filter(({ account }) => isLoner(account)) : free;
      const session = found[position % Math.max(1, found.length)];
      if (session) free.splice(free.indexOf(session), 1);
      return session ?? null;
    },
    giveBack(session: Session): void {
      // Retires a session with many long-lived tokens: it would run into the limit.
      if (free.length < MAX_SESSIONS && session.longLived.length < 50) free.push(session);
    },
    begin(account: Account, pair: Pair): void {
      const { sid } = claimsOf(pair.access_token);
      if (!isLoner(account) && !accounts.includes(account)) accounts.push(account);
      this.giveBack({
        account,
        id: Number(sid),
        access: pair.access_token,
        refresh: pair.refresh_token,
        stale: [],
        longLived: [],
      });
    },
  };
}

/** No request logs in to this account again, so logging out everywhere disturbs no other session. */
function isLoner({ username }: Account): boolean {
  return /[0-8]$/.test(username);
}

export type World = ReturnType<typeof makeWorld>;
