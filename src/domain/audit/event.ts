import Type, { type Static, type TObject, type TProperties } from 'typebox';
import { COMMAND_KIND, WARNING_COMMAND_KIND, type Kind } from './kind.ts';
import { MAIL_KINDS } from '../mail-kinds.ts';
import { COUNTED_LIMITS, LOGIN_REFUSALS } from '../refusal-reasons.ts';
import { CODES, FACTOR_TYPES, SECOND_STEPS } from '../second-step.ts';
import { SCOPE_MAX_LENGTH } from '../scopes.ts';
import type { Sourced } from './source.ts';

// `description` and `examples` of the fields appear in docs/audit.md.

const Id = (description: string, example: number) =>
  Type.Integer({ minimum: 1, description, examples: [example] });

const Count = (description: string, example: number) =>
  Type.Integer({ minimum: 0, description, examples: [example] });

const Text = (description: string, example: string) =>
  Type.String({ minLength: 1, maxLength: 512, description, examples: [example] });

const Flag = (description: string) => Type.Boolean({ description, examples: [true] });

const OneOf = <Value extends string>(description: string, values: readonly [Value, ...Value[]]) =>
  Type.Enum([...values], { type: 'string', description, examples: [values[0]] });

const USER = { userId: Id('The account', 7) };
const TOKEN = { ...USER, tokenId: Id('The session or long-lived token', 11) };

/** An account, or the keyed hash of a name that no account has. */
const NAMED = {
  userId: Type.Optional(USER.userId),
  nameHash: Type.Optional(
    Type.String({
      pattern: '^[\\w-]{22}$',
      description: 'Keyed hash of the name, if no account has it',
      examples: ['Zr3vJ0pXk2mWq8sT1bYc9A'],
    }),
  ),
};

export const BY = { by: Id('The session that requested it', 12) };

const TOKEN_IDS = {
  tokenIds: Type.Array(Type.Integer({ minimum: 1 }), {
    description: 'The tokens that ended, at most the first 100',
    examples: [[11, 12]],
  }),
};

const KEY = {
  kid: Type.String({ description: 'The key id', examples: ['Xk2mWq8sT1bYc9AZr3vJ0p'] }),
};

/** Every operator command has these. */
const COMMAND = {
  outcome: OneOf('Whether the command did it', ['success', 'refused', 'failed']),
  reason: Type.Optional(Text('Why it was refused or failed', 'no such user')),
};

/** What an event is, besides its fields. */
export interface Definition<Fields extends TObject = TObject> extends Kind {
  /** For docs/audit.md: the occasion, as a sentence. */
  when: string;
  fields: Fields;
}

function define<Properties extends TProperties>(
  [severity, outcome, actor]: [Definition['severity'], Definition['outcome'], Definition['actor']],
  when: string,
  properties: Properties,
) {
  const fields = Type.Object(properties, { additionalProperties: false });
  return { when, severity, outcome, actor, fields } satisfies Definition;
}

/** A command that changes something, or shows personal data. */
const command = <Properties extends TProperties>(
  line: string,
  properties: Properties,
  { severity, outcome, actor }: Kind = COMMAND_KIND,
) =>
  define([severity, outcome, actor], `An operator ran ${line}.`, {
    ...COMMAND,
    ...properties,
  });

/**
 * A try at a secret. Only `limitAttempt` writes such events, and leaves out some of those that no limit bounds, so each has
 * a `count`.
 */
const failedGuess = <Properties extends TProperties>(
  actor: 'user' | 'presenter',
  when: string,
  properties: Properties,
) =>
  define(['info', 'refused', actor], when, {
    ...properties,
    count: Type.Optional(Count('How many like it were left out before it', 12)),
  });

const SERVICE = {
  serviceName: Text('The service’s name', 'billing'),
  serviceId: Type.Optional(Text('The service’s id', 'lkc_n2Kx0pQ')),
};

const PAIR = {
  issuer: Text('The issuer that vouches for the service', 'https://issuer.example'),
  subject: Text('Its name for the service', 'system:serviceaccount:shop:orders'),
};

const FACTOR = { factorId: Id('The factor', 3) };

const BY_SERVICE = { serviceId: Text('The service', 'lkc_n2Kx0pQ') };

const RIGHTS = {
  rights: Type.Optional(Text('Its rights, if the command named them', 'introspect,users.read')),
};

const KEY_CHANGE = { ...KEY, use: OneOf('What the key signs', ['signing', 'refresh']) };

/**
 * Every event of the audit trail. `npm run docs` writes docs/audit.md from this table. The fields hold ids, hashes and
 * counts: never a password, token, secret or e-mail address.
 */
export const EVENTS = {
  'user.signed_up': define(
    ['info', 'success', 'user'],
    'A signup opened an account and its first session.',
    TOKEN,
  ),
  'session.created': define(['info', 'success', 'user'], 'A login opened a session.', {
    ...TOKEN,
    method: Type.Optional(OneOf('What proved it besides a password, if anything did', SECOND_STEPS)),
  }),
  'session.replaced': define(
    ['info', 'success', 'user'],
    'A login exceeded MAX_SESSIONS_PER_USER and ended the least recently used session.',
    { ...TOKEN, ...BY },
  ),
  'login.failed': failedGuess('presenter', 'A login was refused.', {
    ...NAMED,
    reason: OneOf('Unknown name, wrong password, or disabled account', LOGIN_REFUSALS),
  }),
  'login.factor_asked': define(
    ['info', 'success', 'presenter'],
    'A login had the right password, and was asked for the account’s second factor.',
    USER,
  ),
  'factor.refused': failedGuess(
    'presenter',
    'A caller who had given the right password gave a code that was wrong or used.',
    { ...USER, method: OneOf('The code of an app, or a recovery code', CODES) },
  ),
  'factor.not_confirmed': failedGuess('user', 'A session gave a wrong code for the app that it has set up.', {
    ...USER,
    ...BY,
  }),
  'recovery_code.used': define(
    ['warn', 'success', 'user'],
    'A login used up a recovery code instead of a code of the app.',
    TOKEN,
  ),
  'passkey.counter_behind': define(
    ['warn', 'success', 'user'],
    'A login used a passkey whose counter did not grow: another device may have a copy of it, or two logins overtook each other.',
    { ...TOKEN, ...FACTOR },
  ),
  'passkey.eligibility_changed': define(
    ['warn', 'success', 'user'],
    'A login used a passkey that may be copied to other devices now and could not be before, or the other way round.',
    { ...TOKEN, ...FACTOR },
  ),
  'user.changed': define(
    ['info', 'success', 'user'],
    'A user changed its name, username or e-mail address, or withdrew a pending address.',
    {
      ...USER,
      ...BY,
      fields: Text('What changed, never to what', 'name,username'),
    },
  ),
  'user.created_by_client': define(
    ['info', 'success', 'service'],
    'A registered service opened an account.',
    { ...USER, ...BY_SERVICE },
  ),
  'user.changed_by_client': define(
    ['info', 'success', 'service'],
    'A registered service changed, disabled or enabled an account.',
    {
      ...USER,
      ...BY_SERVICE,
      fields: Text('What it asked to change', 'roles,disabled'),
      disabled: Flag('Whether the account is disabled now'),
      ...TOKEN_IDS,
    },
  ),
  'user.deleted_by_client': define(
    ['warn', 'success', 'service'],
    'A registered service deleted an account.',
    {
      ...USER,
      ...BY_SERVICE,
      ...TOKEN_IDS,
    },
  ),
  'user.logged_out_by_client': define(
    ['info', 'success', 'service'],
    'A registered service ended all tokens of an account.',
    { ...USER, ...BY_SERVICE, ...TOKEN_IDS },
  ),
  'user.invited_by_client': define(
    ['info', 'success', 'service'],
    'A registered service asked again for the invitation of an account. Creating an account is `user.created_by_client`.',
    { ...USER, ...BY_SERVICE },
  ),
  'user.reset_by_client': define(['warn', 'success', 'service'], 'A registered service made a reset token.', {
    ...USER,
    ...BY_SERVICE,
  }),
  'password.changed': define(['info', 'success', 'user'], 'A user changed the password.', {
    ...USER,
    ...BY,
    ...TOKEN_IDS,
  }),
  'password.wrong': failedGuess(
    'user',
    'A session gave a wrong current password, to change the password, username, e-mail address or second factors.',
    { ...USER, ...BY },
  ),
  'factor.added': define(
    ['warn', 'success', 'user'],
    'A user confirmed a second factor. From then on, a login takes it.',
    { ...USER, ...BY, ...FACTOR, type: OneOf('Its kind', FACTOR_TYPES) },
  ),
  'factor.removed': define(['warn', 'success', 'user'], 'A user removed a second factor.', {
    ...USER,
    ...BY,
    ...FACTOR,
  }),
  'recovery_codes.replaced': define(['info', 'success', 'user'], 'A user got new recovery codes.', {
    ...USER,
    ...BY,
  }),
  'factors.removed_by_client': define(
    ['warn', 'success', 'service'],
    'A registered service removed all second factors of an account, and ended all its tokens.',
    { ...USER, ...BY_SERVICE, ...TOKEN_IDS },
  ),
  'password.reset': define(
    ['warn', 'success', 'presenter'],
    'A reset token was redeemed: the account has a new password, and all its tokens ended.',
    { ...USER, ...TOKEN_IDS },
  ),
  'password.reset_failed': failedGuess(
    'presenter',
    'A reset token was unknown, used, replaced, voided or expired.',
    {},
  ),
  'mail.taken': define(
    ['info', 'success', 'service'],
    'A mailer took a mail. Unless it is a notice, it has a token that acts for the account.',
    { ...USER, ...BY_SERVICE, kind: OneOf('What the mail is for', MAIL_KINDS) },
  ),
  'email.verified': define(
    ['info', 'success', 'presenter'],
    'A token that was mailed was redeemed, also to reset the password: the address of the account is verified.',
    USER,
  ),
  'email.change_requested': define(
    ['info', 'success', 'user'],
    'With EMAIL_VERIFICATION, a user asked for another e-mail address, which is pending until it is proved.',
    { ...USER, ...BY },
  ),
  'email.changed': define(
    ['warn', 'success', 'user'],
    'A user proved the pending address, which is the one of the account from then on.',
    { ...USER, ...BY },
  ),
  'email.verification_failed': failedGuess(
    'presenter',
    'A verification token was unknown, voided, expired, or of another account, or its address was taken meanwhile.',
    { userId: Type.Optional(USER.userId), by: Type.Optional(BY.by) },
  ),
  'email.undeliverable': define(
    ['warn', 'success', 'service'],
    'A mailer reported that an address of the account cannot be reached.',
    {
      ...USER,
      ...BY_SERVICE,
      address: OneOf(
        'The one in force, to which only proofs go from now on, or a pending one, which was withdrawn',
        ['in_force', 'pending'],
      ),
    },
  ),
  'limit.reached': define(
    ['warn', 'refused', 'presenter'],
    'A limit refused a request for the first time in its window. Each replica writes one event for a key and window.',
    {
      ...NAMED,
      limit: OneOf(
        'Which limit; `llt` is MAX_LLT_PER_USER, `llt_budget` and `passkey_budget` RATE_LIMIT_LLT, `llt_network` RATE_LIMIT_LLT_NETWORK',
        ['llt', ...COUNTED_LIMITS],
      ),
      windowSeconds: Count('Length of the window', 900),
      network: Type.Optional(
        Text(
          'The network, for the limits `network`, `signup_network`, `reset_network` and `llt_network`',
          '203.0.113.0/24',
        ),
      ),
    },
  ),
  'session.reuse_detected': define(
    ['warn', 'refused', 'presenter'],
    'A superseded refresh token was presented, or a token of such a session before that was on record. The session ends.',
    { ...TOKEN, generation: Count('The presented token’s generation', 1795361283000000) },
  ),
  'llt.ended_for_reuse': define(
    ['warn', 'success', 'system'],
    'Long-lived tokens ended because the session that created them was stolen. The address is that of the request that found the theft.',
    { ...USER, ...TOKEN_IDS, by: Id('The stolen session that created them', 12) },
  ),
  'llt.created': define(['info', 'success', 'user'], 'A user created a long-lived token.', {
    ...TOKEN,
    ...BY,
  }),
  'limited.created': define(['info', 'success', 'user'], 'A user created a limited token.', {
    ...TOKEN,
    ...BY,
    scopes: Type.String({
      maxLength: SCOPE_MAX_LENGTH,
      description: 'Its scopes, as the user chose them',
      examples: ['orders:read orders:write'],
    }),
    audience: Type.Optional(Text('Its audience, if that is not AUDIENCE', 'orders')),
  }),
  'token.revoked': define(
    ['info', 'success', 'user'],
    'A user ended a session or long-lived token: a logout if `by` is the token itself.',
    {
      ...TOKEN,
      ...BY,
      type: Type.Optional(OneOf('The token’s type, if the request named it', ['session', 'llt'])),
    },
  ),
  'user.logged_out': define(['info', 'success', 'user'], 'A user logged out everywhere.', {
    ...USER,
    ...BY,
    ...TOKEN_IDS,
    before: Type.Union([Type.Integer(), Type.Null()], {
      description: 'Every token up to this id has ended; null if the caller kept its session',
      examples: [12],
    }),
  }),
  'token.revoked_by_client': define(
    ['info', 'success', 'service'],
    'A registered service ended a session or long-lived token.',
    { ...TOKEN, ...BY_SERVICE },
  ),
  'clock.wrong': define(
    ['error', 'refused', 'presenter'],
    'A refresh was refused because its session lies in the future of Redis’s clock.',
    TOKEN,
  ),

  'database.seeded': define(
    ['warn', 'success', 'system'],
    'A replica added users and services of SEED_FILE to a database for development.',
    { users: Count('Users that it added', 3), services: Count('Services that it added', 1) },
  ),

  'key.loaded': define(['info', 'success', 'system'], 'A replica loaded a new key.', KEY_CHANGE),
  'key.removed': define(['info', 'success', 'system'], 'A replica no longer finds a key.', KEY_CHANGE),
  'key.switched': define(['info', 'success', 'system'], 'A replica began to sign with another key.', {
    ...KEY_CHANGE,
    previous: Text('The key that signed before', 'q8sT1bYc9AZr3vJ0pXk2mW'),
  }),

  migrate: command('`latchkey migrate`', {
    applied: Type.Optional(Count('Migrations that it applied', 1)),
    resolved: Type.Optional(Text('The migration that was marked as resolved', '20260101000000_init')),
  }),
  purge: command('`latchkey purge`', { purged: Type.Optional(Count('Records that it deleted', 120)) }),
  recover: command('`latchkey recover`', {
    endAll: Flag('With `--end-all`'),
    keepSessions: Flag('With `--keep-sessions`'),
    tokens: Type.Optional(Count('Tokens in Redis', 900)),
    revoked: Type.Optional(Count('Tokens that it revoked in the record again', 3)),
    lost: Type.Optional(Count('Tokens without a record that it ended', 2)),
    ended: Type.Optional(Count('Tokens that `--end-all` ended', 0)),
  }),
  'settings.accept': command('`latchkey settings accept`', {
    kid: Type.Optional({ ...KEY.kid, description: 'With `--retire`: the key that it let go' }),
    issuer: Type.Optional(Text('The new ISSUER', 'https://auth.example.com')),
    audience: Type.Optional(Text('The new AUDIENCE', 'latchkey')),
  }),
  'readers.forget': command('`latchkey readers forget`', {
    serviceName: SERVICE.serviceName,
    instance: Type.Optional(Text('The instance, if the command named one', 'orders-7d9f4c')),
    forgotten: Type.Optional(Count('Readers that it removed', 1)),
  }),
  drill: command('`latchkey drill`, which opens and deletes an account', {
    userId: NAMED.userId,
    urls: Type.Optional(Count('URLs that it asked', 2)),
    verdict: Type.Optional(OneOf('What it found', ['passed', 'failed', 'not_run'])),
    deleted: Type.Optional(Flag('The account is deleted; if not, the next drill does that')),
  }),
  'user.disable': command('`latchkey user disable`', {
    userId: NAMED.userId,
    ended: Type.Optional(Count('Tokens that it ended', 2)),
    done: Type.Optional(Flag('A replica has confirmed that they are refused')),
  }),
  'user.enable': command('`latchkey user enable`', { userId: NAMED.userId }),
  'user.roles': command('`latchkey user roles`', {
    userId: NAMED.userId,
    done: Type.Optional(Flag('A replica has confirmed that it serves the new roles')),
  }),
  'user.delete': command('`latchkey user delete`', {
    userId: NAMED.userId,
    ended: Type.Optional(Count('Tokens that it ended', 2)),
    done: Type.Optional(Flag('A replica has confirmed that they are refused')),
  }),
  'user.reset': command('`latchkey user reset`, which makes a reset token', {
    userId: NAMED.userId,
    disabled: Type.Optional(Flag('The account is disabled, and stays so')),
  }),
  explain: command('`latchkey explain`, which shows personal data', {
    userId: NAMED.userId,
    tokenId: Type.Optional(TOKEN.tokenId),
  }),
  'user.tokens': command('`latchkey user tokens`, which shows personal data', { userId: NAMED.userId }),
  'user.factors': command('`latchkey user factors`, which shows personal data', { userId: NAMED.userId }),
  'user.factors_removed': command(
    '`latchkey user factors --remove`',
    {
      userId: NAMED.userId,
      removed: Type.Optional(Count('Factors that it removed', 1)),
      ended: Type.Optional(Count('Tokens that it ended', 2)),
      done: Type.Optional(Flag('A replica has confirmed that they are refused')),
    },
    WARNING_COMMAND_KIND,
  ),
  'user.show': command('`latchkey user show`, which shows personal data', { userId: NAMED.userId }),
  'user.list': command('`latchkey user list`, which shows personal data', {
    shown: Type.Optional(Count('Accounts that it showed', 100)),
  }),
  'user.create': command('`latchkey user create`', { userId: NAMED.userId }),
  'user.import': command('`latchkey user import`', {
    imported: Type.Optional(Count('Accounts that it added', 100_000)),
    refused: Type.Optional(Count('Lines that it refused', 2)),
    skipped: Type.Optional(Count('Lines that an earlier run had imported', 0)),
  }),
  'user.export': command('`latchkey user export`, which writes password hashes and e-mail addresses', {
    exported: Type.Optional(Count('Accounts that it wrote', 100_000)),
  }),
  'client.create': command('`latchkey client create`', {
    ...SERVICE,
    ...RIGHTS,
    audience: Type.Optional(Text('Its audience, if the command named one', 'orders')),
  }),
  'client.allow': command('`latchkey client allow`', { ...SERVICE, ...RIGHTS }),
  'client.roles': command('`latchkey client roles`', SERVICE),
  'client.trust': command('`latchkey client trust`', {
    ...SERVICE,
    ...PAIR,
    keys: Flag('With `--jwks`, which replaces the keys of the issuer for every client'),
  }),
  'client.untrust': command('`latchkey client untrust`', { ...SERVICE, ...PAIR }),
  'client.disable': command('`latchkey client disable`', SERVICE),
  'client.enable': command('`latchkey client enable`', SERVICE),
  'client.end-tokens': command('`latchkey client end-tokens`', SERVICE),
  'client.rotate': command('`latchkey client rotate`', {
    ...SERVICE,
    step: OneOf('`--again` replaces the newer secret, `--finish` ends the older one', [
      'add',
      'again',
      'finish',
    ]),
  }),
  'client.delete': command('`latchkey client delete`', { serviceName: SERVICE.serviceName }),
  'factors.rekey': command('`latchkey factors rekey`', {
    moved: Type.Optional(Count('Secrets that it encrypted anew', 120)),
    left: Type.Optional(Count('Secrets that are left under another key', 0)),
  }),
  'keys.add': command('`latchkey keys add`', {
    kid: Type.Optional(KEY.kid),
    file: Type.Optional(Text('Its file', '2026-11-22.pem')),
  }),
  'keys.retire': command('`latchkey keys retire`', {
    kid: Type.Optional(KEY.kid),
    force: Flag('With `--force`'),
    files: Type.Optional(Text('The removed files', '2026-11-22.pem')),
  }),
} as const satisfies Record<string, Definition>;

export type EventName = keyof typeof EVENTS;
export type AuditEvent = {
  [Name in EventName]: { event: Name } & Static<(typeof EVENTS)[Name]['fields']>;
}[EventName];
export type EventOf<Name extends EventName> = Extract<AuditEvent, { event: Name }>;

/** The events with a `count`. */
export type FailedGuess = {
  [Name in EventName]: 'count' extends keyof EventOf<Name> ? EventOf<Name> : never;
}[EventName];

/** Writes an event. @param from the request that caused it; NO_REQUEST if none did. */
export type Audit = (event: Exclude<AuditEvent, FailedGuess>, from: Sourced) => void;

/**
 * Writes a failed guess. One that held no slot is bounded by nothing, so only the first of an event, account and network in
 * a minute is written, and the next one says how many were left out. For `limitAttempt` alone.
 * @param network null if it is not counted.
 */
export type AuditFailure = (
  event: FailedGuess,
  guess: { heldSlot: boolean; network: string | null },
  from: Sourced,
) => void;

/** Writes that a limit refused a request, once for a key and window. */
export type AuditLimit = (key: string, event: EventOf<'limit.reached'>, from: Sourced) => void;
