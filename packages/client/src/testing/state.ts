import type { EndedToken, Pair, Token, User } from '../operations.ts';

export interface Account {
  user: User;
  email: string;
  password: string;
  locale: string | null;
}

/** A session, or a long-lived or limited token: `shown` is its item in the list of tokens. */
export interface Holding {
  account: Account;
  shown: Omit<Token, 'current' | 'last_used_at'>;
  ended: Pick<EndedToken, 'ended_at' | 'reason'> | null;
  /**
   * The generation of a session's newest pair, the one that it replaced, and whether its client is known to
   * hold it.
   */
  latest: number;
  parent: number;
  issuedAt: number;
  isConfirmed: boolean;
}

/** A token that was issued and has not expired. */
export interface Presented {
  holding: Holding;
  generation: number;
}

type Kind = 'access' | 'refresh';
type Reason = EndedToken['reason'];

/** Milliseconds, as by default. */
const [ACCESS_TTL, REFRESH_TTL, RETRY_WINDOW] = [900_000, 2_592_000_000, 10_000];

/** The accounts and tokens of a Latchkey with default settings. Ids count from 1, and so do generations. */
export function makeState() {
  const accounts: Account[] = [];
  const holdings: Holding[] = [];
  const endings: Holding[] = [];
  const issued = new Map<string, Presented & { kind: Kind; expiresAt: number }>();
  /** In place of a signature, so that no token of another server is good here. */
  const mark = Math.random().toString(36).slice(2);

  function addAccount(
    given: Pick<Account, 'email' | 'password'> & Pick<User, 'username' | 'name' | 'roles'>,
  ) {
    const { username, name, roles, email, password } = given;
    const user = { id: accounts.length + 1, username, name, created_at: time(Date.now()), roles };
    const account: Account = { user, email, password, locale: null };
    accounts.push(account);
    return account;
  }

  function add(account: Account, shown: Partial<Holding['shown']>): Holding {
    const now = Date.now();
    const holding: Holding = {
      account,
      shown: {
        id: holdings.length + 1,
        type: 'refresh',
        name: 'unknown',
        created_at: time(now),
        created_by: null,
        scopes: null,
        audience: null,
        expires_at: null,
        ...shown,
      },
      ended: null,
      latest: 0,
      parent: 0,
      issuedAt: now,
      isConfirmed: true,
    };
    holdings.push(holding);
    return holding;
  }

  function end(holding: Holding, reason: Reason): void {
    if (holding.ended) return;
    holding.ended = { ended_at: time(Date.now()), reason };
    endings.push(holding);
  }

  function liveOf(account: Account): Holding[] {
    return holdings.filter((holding) => holding.account === account && isLive(holding));
  }

  function issueNext(holding: Holding, parent: number): Pair {
    const now = Date.now();
    Object.assign(holding, { parent, latest: holding.latest + 1, issuedAt: now, isConfirmed: false });
    holding.shown.expires_at = time(now + REFRESH_TTL);
    return pairOf(holding);
  }

  /** A pair that is issued again has the same tokens. */
  function pairOf(holding: Holding): Pair {
    const { user } = holding.account;
    const token = (kind: Kind, typ: string, ttl: number) => {
      const { latest: gen, issuedAt } = holding;
      const sid = holding.shown.id;
      const [iat, exp] = [Math.floor(issuedAt / 1000), Math.floor((issuedAt + ttl) / 1000)];
      const jti = `${sid}.${gen}`;
      const claims = {
        sub: String(user.id),
        sid,
        gen,
        jti,
        iat,
        exp,
        ...(user.roles[0] && { roles: user.roles }),
      };
      const text = `${encoded({ alg: 'none', typ })}.${encoded(claims)}.${mark}`;
      issued.set(text, { holding, generation: gen, kind, expiresAt: exp * 1000 });
      return text;
    };
    return {
      access_token: token('access', 'at+jwt', ACCESS_TTL),
      refresh_token: token('refresh', 'rt+jwt', REFRESH_TTL),
      user: { ...user },
    };
  }

  return {
    accounts,
    addAccount,
    add,
    /** The text of a long-lived or limited token, which no operation takes here. */
    text: ({ account, shown }: Holding, typ: string) =>
      `${encoded({ alg: 'none', typ })}.${encoded({ sub: String(account.user.id), sid: shown.id })}.${mark}`,
    end,
    liveOf,
    holding: (id: number) => holdings.find(({ shown }) => shown.id === id),
    /** The newest first. */
    endedOf: (account: Account) =>
      endings
        .flatMap((each) => (each.account === account && each.ended ? [{ ...each, ended: each.ended }] : []))
        .reverse(),
    open: (account: Account, device?: string): Pair =>
      issueNext(add(account, { ...(device !== undefined && { name: device }) }), 0),
    /** Whether or not its session has ended. */
    presented(text: string, kind: Kind): Presented | null {
      const found = issued.get(text);
      return found?.kind === kind && found.expiresAt > Date.now() ? found : null;
    },
    /**
     * Whether an access token is the newest of a session that has not ended. Whoever presents it holds the
     * pair, so the pair counts as confirmed from then on.
     */
    accepts({ holding, generation }: Presented): boolean {
      if (!isLive(holding) || generation < holding.latest) return false;
      return (holding.isConfirmed = true);
    },
    /** The rules of docs/rotation.md, as they are for a single client. */
    rotate({ holding, generation }: Presented): Pair | 'invalid_token' | 'token_reused' | 'refresh_overlap' {
      if (!isLive(holding)) return 'invalid_token';
      const { latest, parent, issuedAt, isConfirmed } = holding;
      if (generation === latest) return issueNext(holding, generation);
      const isRecent = Date.now() - issuedAt <= RETRY_WINDOW;
      if (isRecent) return generation === parent ? pairOf(holding) : 'refresh_overlap';
      if (generation === parent && !isConfirmed) return issueNext(holding, generation);
      end(holding, 'reuse');
      return 'token_reused';
    },
  };
}

/** As Latchkey writes times. */
export function time(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}

function isLive({ ended, shown: { expires_at } }: Holding): boolean {
  return !ended && !(expires_at !== null && Date.parse(expires_at) <= Date.now());
}

function encoded(part: object): string {
  return btoa(JSON.stringify(part)).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
}
