import { z } from 'zod';
import {
  audience,
  certificates,
  factorIssuer,
  type Description,
  type Field,
  field,
  integer,
  offByDefault,
  onByDefault,
  onBy,
  orIssue,
  plainUrl,
  rate,
  rpId,
  readNodes,
  url,
  usernames,
  waiting,
  wholeNumber,
  readOrigins,
  readPasskeyOrigins,
  readRequestLog,
} from './field-kinds.ts';
import { readNetworks, readProxies } from './networks.ts';
import { readRedisUrl } from '../infra/redis/connection/redis-url.ts';
import { TRACING_FIELDS } from './tracing.ts';

// Every environment variable. `npm run docs` writes docs/configuration.md from this file.

const SERVER_FIELDS = {
  NODE_ENV: field(
    z
      .enum(['production', 'development', 'test'], 'must be production, development or test')
      .default('development'),
    {
      type: '`production`, `development`, `test`',
      defaultText: 'development',
      meaning: '`production` refuses embedded defaults and weak hashing',
    },
  ),
  HOST: field(z.string().default('127.0.0.1'), {
    type: 'address',
    defaultText: '127.0.0.1',
    meaning: 'address on which the API listens',
  }),
  PORT: integer(0, 65_535, 3000, 'port', 'port of the API; `0` takes a free one'),
  OPS_HOST: field(z.string().default('127.0.0.1'), {
    type: 'address',
    defaultText: '127.0.0.1',
    meaning: 'address on which the ops port listens',
  }),
  OPS_PORT: integer(0, 65_535, 9464, 'port', 'port of health, metrics and log level; keep it private'),
  TRUST_PROXY: field(z.string().default('false').transform(readProxies), {
    type: 'list of addresses and networks',
    defaultText: 'false',
    meaning: 'peers whose `X-Forwarded-For` counts ([values](operating.md#addresses-behind-proxies))',
  }),
  CORS_ORIGINS: field(
    z
      .string()
      .default('')
      .transform((value, context) => readOrigins(value, context)),
    {
      type: 'list of origins',
      defaultText: 'none',
      meaning:
        'origins whose scripts may call the API: of websites, and of apps with pages of their own ([browsers](integrating/browsers-and-apps.md))',
    },
  ),
  REQUEST_TIMEOUT: integer(1, 120, 10, 'seconds', 'time for a request to arrive completely'),
  DRAIN_DELAY: integer(0, 300, 5, 'seconds', 'after SIGTERM: time to keep serving while not ready'),
  SHUTDOWN_TIMEOUT: integer(1, 600, 25, 'seconds', 'after SIGTERM: time until open requests are cut off'),
  DOCS_ENABLED: onBy('true; false in production', 'serve the API reference at `/docs`'),
  DATA_DIR: field(z.string().default('.data'), {
    type: 'folder',
    defaultText: '.data',
    meaning: 'where the embedded defaults keep the database and generated keys',
  }),
};

const POSTGRES_FIELDS = {
  DATABASE_URL: field(url(['postgres:', 'postgresql:']).optional(), {
    type: 'URL',
    defaultText: 'embedded PostgreSQL',
    meaning: 'PostgreSQL 14 or later',
    required: true,
  }),
  DATABASE_CA: certificates('DATABASE_CA'),
  DATABASE_POOL: integer(
    1,
    1000,
    10,
    'connections',
    'pool of one replica; one more connection probes the server',
  ),
  DATABASE_TIMEOUT: integer(
    100,
    60_000,
    5000,
    'milliseconds',
    'for a statement, and for the wait for a connection or for a turn at an account',
  ),
  SEED_FILE: field(z.string().optional(), {
    type: 'file',
    defaultText: 'none',
    meaning:
      'JSON with users and services that [fill an empty database](development.md#seed); not in production',
    refusedInProduction: true,
  }),
};

const REDIS_FIELDS = {
  REDIS_URL: field(z.string().transform(orIssue(readRedisUrl)).optional(), {
    type: 'URL',
    defaultText: 'in-process store',
    meaning: 'user, password, database, and TLS (`rediss://`); Sentinel and Cluster ignore its host',
    required: true,
  }),
  REDIS_MODE: field(
    z.enum(['single', 'sentinel', 'cluster'], 'must be single, sentinel or cluster').default('single'),
    { type: '`single`, `sentinel`, `cluster`', defaultText: 'single', meaning: 'how Redis is deployed' },
  ),
  REDIS_NODES: field(
    z
      .string()
      .optional()
      .transform((value, context) => readNodes(value ?? '', context)),
    {
      type: 'list of `HOST:PORT`',
      defaultText: 'none',
      meaning: 'the Sentinels, or some nodes of the cluster',
    },
  ),
  REDIS_SENTINEL_NAME: field(z.string().optional(), {
    type: 'text',
    defaultText: 'none',
    meaning: 'name of the master in Sentinel',
  }),
  REDIS_SENTINEL_USERNAME: field(z.string().optional(), {
    type: 'text',
    defaultText: 'none',
    meaning: 'user of the Sentinels, if they require one',
  }),
  REDIS_SENTINEL_PASSWORD: field(z.string().optional(), {
    type: 'text (secret)',
    defaultText: 'none',
    meaning: 'password of that user',
  }),
  REDIS_CA: certificates('REDIS_CA'),
  REDIS_PREFIX: field(
    z
      .string()
      .regex(/^[^{}]*$/, 'must not hold braces: they choose the slot in a cluster')
      .default('latchkey:'),
    { type: 'text without braces', defaultText: 'latchkey:', meaning: 'prefix of every key' },
  ),
  REDIS_TIMEOUT: integer(50, 5000, 500, 'milliseconds', 'for a command, and for a new connection'),
};

const TOKEN_FIELDS = {
  /** Without DATABASE_URL the port follows PORT (config.ts). */
  ISSUER: field(plainUrl().default('http://localhost:3000'), {
    type: 'URL',
    defaultText: 'http://localhost:3000',
    meaning: '`iss` of every token; the same on all replicas. The embedded default follows `PORT`',
    required: true,
  }),
  AUDIENCE: field(audience().default('latchkey'), {
    type: 'text',
    defaultText: 'latchkey',
    meaning: '`aud` of every token; the same on all replicas',
  }),
  SIGNING_KEYS_DIR: field(z.string().optional(), {
    type: 'folder',
    defaultText: 'generated in DATA_DIR',
    meaning: 'PEM private keys (`*.pem`), read every 5 s ([keys](keys.md))',
    required: true,
  }),
  KEY_PUBLISH_LEAD: integer(
    0,
    86_400,
    600,
    'seconds',
    'time for which a new signing key is published before it signs',
  ),
  REFRESH_TOKEN_SECRET: field(z.string().optional(), {
    type: 'list of base64url (secret)',
    defaultText: 'generated in DATA_DIR',
    meaning: 'each at least 32 bytes: the first signs, all verify. A file is read every 5 s',
    required: true,
  }),
  ACCESS_TOKEN_TTL: integer(10, 86_400, 900, 'seconds', 'lifetime of an access token'),
  REFRESH_TOKEN_TTL: integer(
    60,
    366 * 86_400,
    2_592_000,
    'seconds',
    'lifetime of a refresh token, from each refresh; a shorter one holds for open sessions too',
  ),
  SESSION_MAX_AGE: integer(
    0,
    10 * 366 * 86_400,
    0,
    'seconds',
    'age at which a session ends even if it is refreshed; `0`: never',
  ),
  SESSION_CACHE_TTL: integer(
    60,
    30 * 86_400,
    3600,
    'seconds',
    'time that a session stays in Redis after its last refresh or rebuild',
  ),
  REFRESH_RETRY_WINDOW: integer(
    0,
    300,
    10,
    'seconds',
    'a retry of a refresh gets the same pair again; `0` turns this off',
  ),
  MAX_SESSIONS_PER_USER: integer(1, 10_000, 100, 'sessions', 'one more ends the least recently used one'),
  MAX_LLT_PER_USER: integer(1, 10_000, 100, 'tokens', 'long-lived and limited tokens that a user may have'),
  LLT_ENABLED: onByDefault('allow new long-lived tokens; existing ones stay valid either way'),
  LLT_MAX_AGE: integer(
    0,
    10 * 366 * 86_400,
    0,
    'seconds',
    'lifetime of a new long-lived token; `0`: it does not expire',
  ),
  LLT_LOGIN_MAX_AGE: integer(
    0,
    10 * 366 * 86_400,
    0,
    'seconds',
    'oldest login that may create long-lived and limited tokens; `0`: any age',
  ),
  LIMITED_TOKENS_ENABLED: onBy(
    'that of `LLT_ENABLED`',
    'allow new limited tokens; existing ones stay valid either way',
  ),
  LIMITED_TOKEN_MAX_AGE: integer(
    60,
    10 * 366 * 86_400,
    31_536_000,
    'seconds',
    'longest lifetime of a new limited token; a shorter `LLT_MAX_AGE` counts',
  ),
  REVOCATION_READERS_MAX: integer(
    0,
    100_000,
    1000,
    'readers',
    'readers of the revocation feed on one replica',
  ),
  REVOCATION_READERS_PER_CLIENT: field(wholeNumber(1, 100_000).optional(), {
    type: 'readers, 1 to 100000',
    defaultText: 'a quarter of the above',
    meaning: 'readers of one client on one replica; at least 1 by default',
    bounds: { min: 1, max: 100_000 },
  }),
};

const ACCOUNT_FIELDS = {
  SIGNUP_ENABLED: onByDefault('allow signup'),
  RESERVED_USERNAMES: usernames('admin,administrator,root,support,security,system', {
    defaultText: 'admin,administrator,root,support,security,system',
    meaning: 'names that signup refuses, as well as lookalikes; `none` for no such list',
  }),
  PASSWORD_MIN_LENGTH: integer(1, 128, 8, 'characters', 'shortest new password'),
  EXCHANGED_TOKEN_TTL: integer(
    10,
    86_400,
    300,
    'seconds',
    'lifetime of a token for one audience, which ends with its session',
  ),
  SERVICE_TOKEN_TTL: integer(60, 3600, 300, 'seconds', 'lifetime of a token that a service gets as itself'),
  PASSWORD_RESET_TTL: integer(60, 7 * 86_400, 1800, 'seconds', 'lifetime of a reset token'),
  INVITATION_TTL: integer(
    60,
    90 * 86_400,
    7 * 86_400,
    'seconds',
    'lifetime of a token in an [invitation](services.md#inviting-a-user)',
  ),
  EMAIL_VERIFICATION: waiting(
    offByDefault('want a mail that verifies the address after a signup or a new address'),
  ),
  NOTICES: waiting(offByDefault('want mails that tell users what changed in their accounts')),
  EMAIL_VERIFICATION_TTL: integer(60, 30 * 86_400, 86_400, 'seconds', 'lifetime of a verification token'),
  FACTOR_KEYS: field(z.string().optional(), {
    type: 'list of base64url (secret)',
    defaultText: 'none; generated in DATA_DIR for the embedded database',
    meaning: '32 bytes each: the first encrypts TOTP secrets, all decrypt. Without it none is added',
    waits: true,
  }),
  /** Without it, the host of ISSUER (config.ts). */
  FACTOR_ISSUER: field(factorIssuer().optional(), {
    type: 'text, 1 to 64 characters without `:`',
    defaultText: 'the host of `ISSUER`',
    meaning: 'name that authenticator apps show; apps keep the one that they have scanned',
  }),
  WEBAUTHN_RP_ID: field(rpId(), {
    type: 'domain',
    defaultText: 'none',
    meaning:
      'domain of the [passkeys](second-factor.md#passkeys), for which each is kept; without it, they are off',
    waits: true,
  }),
  WEBAUTHN_ORIGINS: field(
    z
      .string()
      .default('')
      .transform((value, context) => readPasskeyOrigins(value, context)),
    {
      type: 'list of origins',
      defaultText: 'none',
      meaning: 'pages and apps that may use passkeys; each host is `WEBAUTHN_RP_ID` or below it',
      waits: true,
    },
  ),
  FACTOR_LOGIN_MAX_AGE: integer(
    60,
    86_400,
    600,
    'seconds',
    'oldest login with a second factor that may change the factors',
  ),
  DELETED_NAME_GRACE: integer(
    0,
    10 * 365 * 86_400,
    30 * 86_400,
    'seconds',
    'for how long no other account gets the names of a deleted one',
  ),
  SCRYPT_LOG_N: integer(1, 24, 17, 'exponent', 'cost of a password hash: memory is 128 x 2^N x R bytes'),
  SCRYPT_R: integer(1, 64, 8, '', 'cost of a password hash: block size'),
  SCRYPT_P: integer(1, 16, 1, '', 'cost of a password hash: rounds'),
  HASH_CONCURRENCY: integer(1, 64, 2, 'hashes', 'hashes computed at once; they must fit into memory'),
  HASH_MEMORY: integer(
    0,
    1024,
    0,
    'MiB',
    'memory that one imported hash may take, at least what one of ours takes; counted in the sum at start',
  ),
  HASH_QUEUE: integer(0, 10_000, 64, 'hashes', 'hashes that may wait'),
  HASH_QUEUE_TIMEOUT: integer(
    1,
    60,
    5,
    'seconds',
    'longest wait; a login that would wait longer is refused at once',
  ),
  SHED_LAG: integer(
    0,
    10_000,
    200,
    'milliseconds',
    'event-loop lag above which login and signup are refused; `0` is off',
  ),
  SHED_REDIS_MEMORY: integer(
    0,
    100,
    85,
    'percent',
    'used share of `maxmemory` from which logins, signups, new LLTs and account changes are refused; `0` is off',
  ),
  RATE_LIMIT_LOGIN: rate('30/60', 'logins, resets and changes of one address (IPv6: its /64)'),
  RATE_LIMIT_SIGNUP: rate('20/60', 'signups of one address'),
  RATE_LIMIT_SIGNUP_NETWORK: rate('100/3600', 'accounts that one network opens: IPv4 /24, IPv6 /48'),
  RATE_LIMIT_ACCOUNT: rate(
    '10/900',
    'failed logins of one name, and of each known device ([details](operating.md#guessing)); apart from these, requests for a reset with tokens of one user',
  ),
  RATE_LIMIT_NETWORK: rate(
    '100/900',
    'failed logins of one network (IPv4 /24, IPv6 /48), and apart from these its requests for a reset',
  ),
  RATE_LIMIT_FACTOR: rate(
    '20/86400',
    'wrong codes of one account ([details](second-factor.md#wrong-codes)); not `0` in production',
  ),
  RATE_LIMIT_LLT: rate(
    '100/3600',
    'long-lived and limited tokens that a user creates, deleted ones included; apart from these, sessions that a user opens with passkeys',
  ),
  RATE_LIMIT_LLT_NETWORK: rate('1000/3600', 'the same of one network: IPv4 /24, IPv6 /48'),
  RATE_LIMIT_PROFILE: rate('60/3600', 'changes of names by one user'),
  RATE_LIMIT_ALLOW: field(
    z
      .string()
      .optional()
      .transform((value, context) => readNetworks(value ?? '', context) ?? z.NEVER),
    {
      type: 'list of addresses and networks',
      defaultText: 'none',
      meaning: 'exempt from the limits of addresses and networks',
    },
  ),
};

const LOG_FIELDS = {
  LOG_LEVEL: field(
    z
      .enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], 'must be a level of pino')
      .default('info'),
    {
      type: '`trace`, `debug`, `info`, `warn`, `error`, `fatal`, `silent`',
      defaultText: 'info',
      meaning: 'lowest level that is logged',
    },
  ),
  LOG_REQUESTS: field(
    z
      .string()
      .default('')
      .transform((value, context) => readRequestLog(value, context)),
    {
      type: '`all`, `failures`, `none`, or a list',
      defaultText: '`failures` for frequent requests, else `all`',
      meaning: 'which requests leave a line in the [log](observability.md#logs)',
    },
  ),
  AUDIT_LOG: field(
    z
      .string()
      .regex(/^(stdout|none|file:.+)$/, 'must be stdout, none or file:PATH')
      .default('stdout'),
    {
      type: '`stdout`, `none`, or `file:` and a path',
      defaultText: 'stdout',
      meaning: 'where the [audit trail](audit.md) goes; `LOG_LEVEL` does not change it',
    },
  ),
  LATCHKEY_OPERATOR: field(
    z
      .string()
      // Nothing that breaks or hides a line, and no e-mail address: the trail holds none.
      .regex(
        /^[^@\p{C}\p{Zl}\p{Zp}]{1,128}$/u,
        'must be 1 to 128 characters, without control characters, line breaks and @',
      )
      .optional(),
    {
      type: 'name of at most 128 characters, without `@`',
      defaultText: "the host's user",
      meaning: 'for commands: who runs them, as the [audit trail](audit.md) names its actor',
    },
  ),
};

export const FIELDS = {
  ...SERVER_FIELDS,
  ...POSTGRES_FIELDS,
  ...REDIS_FIELDS,
  ...TOKEN_FIELDS,
  ...ACCOUNT_FIELDS,
  ...LOG_FIELDS,
  ...TRACING_FIELDS,
} satisfies Record<string, Field<unknown>>;

/** The parts of docs/configuration.md, in order. */
export const FIELD_GROUPS: Readonly<Record<string, Readonly<Record<string, Description>>>> = {
  Server: SERVER_FIELDS,
  PostgreSQL: POSTGRES_FIELDS,
  Redis: REDIS_FIELDS,
  Tokens: TOKEN_FIELDS,
  'Accounts, passwords and limits': ACCOUNT_FIELDS,
  Log: LOG_FIELDS,
  'Traces (OpenTelemetry)': TRACING_FIELDS,
};

/** The value of every variable, in the units of docs/configuration.md. */
export type Values = { readonly [Name in keyof typeof FIELDS]: z.output<(typeof FIELDS)[Name]['schema']> };
