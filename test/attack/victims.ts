import { randomBytes } from 'node:crypto';
import type { Deed, Effect } from '../../src/domain/rights.ts';
import type { Manager } from '../support/accounts.ts';
import type { TestApp } from '../support/app.ts';
import { call, claimsOf, createLongLived, logIn, verify } from '../support/client.ts';
import { aFactor } from '../support/factors.ts';
import { sql } from '../support/sql.ts';

/**
 * `holder`: the attacker has been given an access token of it. `plain`: everybody knows its address, which is to change.
 * `guarded`: has a second factor. `invited`: nobody has opened it yet.
 */
type Role = 'holder' | 'plain' | 'guarded' | 'invited';

/** An account whose id and username everybody knows. */
interface Victim {
  role: Role;
  id: number;
  username: string;
  email: string;
  /** A text in its names, roles and devices, and one in its address. Nobody knows them. */
  secrets: Record<'read' | 'read_address', string>;
  /** Null if nobody has logged in. */
  access: string | null;
}

/** An account as it is on record. */
interface Stored {
  row: Record<string, unknown>;
  /** Tokens that have not ended. */
  live: number[];
  /** Tokens that look used. */
  used: number[];
  factors: number[];
}

/** What a change of a column is. A column that is not here is the account's: it has been changed. */
const COLUMNS: Record<string, Deed | null> = {
  password_hash: 'set_password',
  password_version: 'set_password',
  imported_hash: 'set_password',
  imported_cost: 'set_password',
  factor_since: 'remove_factors',
  email_verified_at: 'prove_address',
  undeliverable_at: 'stop_mails',
  // What Redis is told.
  version: null,
  changed_at: null,
  pending: null,
};

/** The only accounts, each new, and what is done to them. */
export async function theVictims(target: TestApp, operator: Manager) {
  await sql(target.databaseUrl, 'DELETE FROM users');
  const victims: Victim[] = [];
  for (const role of ['holder', 'plain', 'guarded', 'invited'] as const)
    victims.push(await aVictim(target, operator, role));
  const before = await accountsOf(target);
  const own = new Set<number>();
  const effects = new Set<Effect | 'guarded.take_over'>();
  const seen = new Set<string | null>(victims.map(({ access }) => access));

  function note({ role }: Victim, deed: Deed): void {
    if (role === 'guarded' && deed === 'take_over') effects.add('guarded.take_over');
    else effects.add(`${role === 'holder' ? role : 'account'}.${deed}`);
  }

  return {
    effects,
    /** Of those whose tokens the attacker has not. */
    ids: victims.filter(({ role }) => role !== 'holder').map(({ id }) => id),
    usernames: victims.map(({ username }) => username),
    /** Those that everybody knows. */
    addresses: victims.filter(({ role }) => role === 'plain').map(({ email }) => email),
    /** The token that the attacker has been given. */
    access: victims.find(({ role }) => role === 'holder')?.access ?? '',
    /** The ids of all tokens: they are small numbers. */
    tokens: [...before.values()].flatMap(({ live }) => live),

    /** An account that the attacker has of right. */
    spare(id: number): void {
      own.add(id);
    },

    /** Whether there is nothing more to reach. */
    areTaken: () => effects.has('account.take_over'),

    /** Notes what an answer tells of the victims. */
    readIn(text: string): void {
      for (const victim of victims)
        for (const deed of ['read', 'read_address'] as const)
          if (text.includes(victim.secrets[deed])) note(victim, deed);
    },

    /** Notes what a token that the attacker was shown is good for. */
    async tryToken(token: string): Promise<void> {
      if (seen.has(token)) return;
      seen.add(token);
      const { sub, aud } = claimsOf(token);
      const victim = victims.find(({ id }) => String(id) === sub);
      if (victim && (await verify(target, token)).statusCode === 200) note(victim, 'take_over');
      else if (aud === 'orders') {
        const { statusCode } = await call(target, 'GET /api/auth/verify?audience=orders', { token });
        if (statusCode === 200 && victim) note(victim, 'exchange');
        else if (statusCode === 200) effects.add('service.call');
      }
    },

    /** Notes what has changed on record. */
    async compare(): Promise<void> {
      const after = await accountsOf(target);
      for (const victim of victims)
        for (const deed of deedsBetween(before.get(victim.id), after.get(victim.id))) note(victim, deed);
      if ([...after.keys()].some((id) => !before.has(id) && !own.has(id))) effects.add('account.create');
    },
  };
}

export type Victims = Awaited<ReturnType<typeof theVictims>>;

async function aVictim(target: TestApp, operator: Manager, role: Role): Promise<Victim> {
  const [username, read, mailbox] = [`${role}-${aText()}`, aText(), aText()];
  const secret = `${mailbox}@owner.example`;
  const [password, email] = ['difference engine', role === 'plain' ? `${username}@owner.example` : secret];
  const account = { username, email, name: `Ada ${read}`, roles: [read], external_id: read, locale: 'de' };
  const opened = role === 'invited' ? { invite: true } : { password, email_verified: true };
  const created = await operator('POST /api/users', { ...account, ...opened });
  if (created.statusCode !== 200) throw new Error(`no victim: ${created.body}`);
  const { id } = created.json<{ id: number }>();
  const secrets = { read, read_address: mailbox };
  const victim = { role, id, username, email, secrets };
  if (role === 'invited') return { ...victim, access: null };
  const pair = await logIn(target, username, password);
  const token = pair.access_token;
  if (role === 'guarded') await aFactor(target, pair);
  // Never used.
  if (role === 'plain') await createLongLived(target, token);
  if (role === 'plain')
    await call(target, 'PATCH /api/user', { token, payload: { email: secret, current_password: password } });
  return { ...victim, access: token };
}

function aText(): string {
  return randomBytes(8).toString('hex');
}

async function accountsOf({ databaseUrl }: TestApp): Promise<Map<number, Stored>> {
  const rows = await sql<Stored & { id: number }>(
    databaseUrl,
    `SELECT id::int, to_jsonb(users) AS row,
       ARRAY(SELECT id::int FROM tokens WHERE user_id = users.id AND revoked_at IS NULL) AS live,
       ARRAY(SELECT id::int FROM tokens WHERE user_id = users.id AND last_used_at IS NOT NULL) AS used,
       ARRAY(SELECT id::int FROM factors WHERE user_id = users.id) AS factors
     FROM users`,
  );
  return new Map(rows.map(({ id, ...stored }) => [id, stored]));
}

function deedsBetween(before: Stored | undefined, after: Stored | undefined): Deed[] {
  if (!before || after?.row.deleted_at !== null) return ['delete'];
  const isGone = (kind: 'live' | 'factors') => before[kind].some((id) => !after[kind].includes(id));
  const columns = Object.keys(after.row).filter(
    (name) =>
      JSON.stringify(after.row[name]) !== JSON.stringify(before.row[name]) &&
      // Much withdraws the address that a user has asked for. Only another one there is a change.
      !(name.startsWith('pending_') && after.row[name] === null),
  );
  const changed = columns.map((name) => {
    // To take the mark away is less.
    if (name === 'email_verified_at' && after.row[name] === null) return 'change';
    return name in COLUMNS ? COLUMNS[name] : 'change';
  });
  return [
    ...changed.filter((deed) => deed !== null && deed !== undefined),
    ...(isGone('live') ? (['end_tokens'] as const) : []),
    ...(after.used.some((id) => !before.used.includes(id)) ? (['use_tokens'] as const) : []),
    ...(isGone('factors') ? (['remove_factors'] as const) : []),
  ];
}
