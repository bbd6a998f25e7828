import { BlockList, isIP } from 'node:net';
import { z } from 'zod';
import { TRACING_FIELDS } from './config-tracing.ts';

/**
 * Every environment variable: how it is read, and how the README's table describes it (a test compares the two).
 * Messages follow the variable's name and never repeat its value: it may be a secret.
 */
export interface Field<Type> {
  schema: z.ZodType<Type, string | undefined>;
  /** The README's column of defaults. */
  shown: string;
}

export const FIELDS = {
  NODE_ENV: field(z.string().default('development'), 'development'),
  HOST: field(z.string().default('127.0.0.1'), '127.0.0.1'),
  PORT: integer(0, 65_535, 3000),
  OPS_HOST: field(z.string().default('127.0.0.1'), '127.0.0.1'),
  OPS_PORT: integer(0, 65_535, 9464),
  DATABASE_URL: field(url(['postgres:', 'postgresql:']).optional(), 'embedded PostgreSQL'),
  DATABASE_POOL: integer(1, 1000, 10),
  DATABASE_TIMEOUT: integer(100, 60_000, 5000),
  REDIS_URL: field(url(['redis:', 'rediss:']).optional(), 'in-process store'),
  REDIS_MODE: field(
    z.enum(['single', 'sentinel', 'cluster'], 'must be single, sentinel or cluster').default('single'),
    'single',
  ),
  REDIS_NODES: field(
    z
      .string()
      .optional()
      .transform((value, context) => readNodes(value ?? '', context)),
    'none',
  ),
  REDIS_SENTINEL_NAME: field(z.string().optional(), 'none'),
  REDIS_SENTINEL_USERNAME: field(z.string().optional(), 'none'),
  REDIS_SENTINEL_PASSWORD: field(z.string().optional(), 'none'),
  REDIS_CA: field(
    z
      .string()
      .regex(/-----BEGIN CERTIFICATE-----/, 'must be certificates in PEM')
      .optional(),
    "Node's list",
  ),
  REDIS_PREFIX: field(
    z
      .string()
      .regex(/^[^{}]*$/, 'must not hold braces: they choose the slot in a cluster')
      .default('latchkey:'),
    'latchkey:',
  ),
  REDIS_TIMEOUT: integer(50, 5000, 500),
  DATA_DIR: field(z.string().default('.data'), '.data'),
  SIGNING_KEYS_DIR: field(z.string().optional(), 'generated in DATA_DIR'),
  KEY_PUBLISH_LEAD: integer(0, 86_400, 600),
  REFRESH_TOKEN_SECRET: field(z.string().optional(), 'generated in DATA_DIR'),
  ISSUER: field(issuer().default('http://localhost:3000'), 'http://localhost:3000'),
  AUDIENCE: field(z.string().default('latchkey'), 'latchkey'),
  ACCESS_TOKEN_TTL: integer(10, 86_400, 900),
  REFRESH_TOKEN_TTL: integer(60, 366 * 86_400, 2_592_000),
  SESSION_MAX_AGE: integer(0, 10 * 366 * 86_400, 0),
  SESSION_CACHE_TTL: integer(60, 30 * 86_400, 3600),
  REFRESH_RETRY_WINDOW: integer(0, 300, 10),
  MAX_LLT_PER_USER: integer(1, 10_000, 100),
  MAX_SESSIONS_PER_USER: integer(1, 10_000, 100),
  PASSWORD_MIN_LENGTH: integer(1, 128, 8),
  SIGNUP_ENABLED: onByDefault(),
  DOCS_ENABLED: onByDefault(),
  REVOCATION_READERS_MAX: integer(0, 100_000, 1000),
  RATE_LIMIT_LOGIN: rate('30/60'),
  RATE_LIMIT_SIGNUP: rate('20/60'),
  RATE_LIMIT_ALLOW: field(
    z
      .string()
      .optional()
      .transform((value, context) => readNetworks(value ?? '', context)),
    'none',
  ),
  SCRYPT_LOG_N: integer(1, 24, 17),
  SCRYPT_R: integer(1, 64, 8),
  SCRYPT_P: integer(1, 16, 1),
  HASH_CONCURRENCY: integer(1, 64, 2),
  HASH_QUEUE: integer(0, 10_000, 64),
  HASH_QUEUE_TIMEOUT: integer(1, 60, 5),
  SHED_LAG: integer(0, 10_000, 200),
  TRUST_PROXY: field(z.string().default('false').transform(readProxies), 'false'),
  REQUEST_TIMEOUT: integer(1, 120, 10),
  DRAIN_DELAY: integer(0, 300, 5),
  SHUTDOWN_TIMEOUT: integer(1, 600, 25),
  LOG_LEVEL: field(
    z
      .enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], 'must be a level of pino')
      .default('info'),
    'info',
  ),
  ...TRACING_FIELDS,
} satisfies Record<string, Field<unknown>>;

/** The value of every variable, in the units of the README's table. */
export type Values = { readonly [Name in keyof typeof FIELDS]: z.output<(typeof FIELDS)[Name]['schema']> };

export interface Rate {
  count: number;
  seconds: number;
}

function field<Type>(schema: z.ZodType<Type, string | undefined>, shown: string): Field<Type> {
  return { schema, shown };
}

function onByDefault(): Field<boolean> {
  const schema = z
    .enum(['true', 'false'], 'must be true or false')
    .default('true')
    .transform((value) => value === 'true');
  return field(schema, 'true');
}

function integer(min: number, max: number, fallback: number): Field<number> {
  const message = `must be a whole number from ${min} to ${max}`;
  const schema = z
    .string()
    .regex(/^\d{1,15}$/, message)
    .default(String(fallback))
    .transform(Number)
    .refine((value) => value >= min && value <= max, message);
  return field(schema, String(fallback));
}

function url(protocols: string[]) {
  const message = `must be a URL (${protocols.map((protocol) => `${protocol}//`).join(' or ')})`;
  return z
    .string()
    .refine((value) => URL.canParse(value) && protocols.includes(new URL(value).protocol), message);
}

/** RFC 8414, section 2. */
function issuer() {
  return url(['http:', 'https:']).refine((value) => !/[?#]/.test(value), 'must hold no query or fragment');
}

/** `count/seconds`; `0` is off and read as null. */
function rate(fallback: string): Field<Rate | null> {
  const message = 'must be COUNT/SECONDS, or 0 for no limit';
  const schema = z
    .string()
    .regex(/^(0|[1-9]\d{0,6}\/[1-9]\d{0,5})$/, message)
    .default(fallback)
    .transform((value) => {
      const [count, seconds] = value.split('/').map(Number);
      return count && seconds ? { count, seconds } : null;
    });
  return field(schema, fallback);
}

/** Addresses and networks, separated by commas. */
function readNetworks(value: string, context: z.RefinementCtx): BlockList {
  const networks = new BlockList();
  for (const entry of listOf(value)) {
    const [address = '', bits] = entry.split('/');
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
    const max = family === 'ipv6' ? 128 : 32;
    if (isIP(address) === 0 || (bits !== undefined && !(/^\d{1,3}$/.test(bits) && Number(bits) <= max))) {
      context.addIssue({
        code: 'custom',
        message: 'must be addresses or networks (10.0.0.0/8), separated by commas',
      });
      return z.NEVER;
    }
    networks.addSubnet(address, bits === undefined ? max : Number(bits), family);
  }
  return networks;
}

/** The proxies whose X-Forwarded-For counts; null for none. All of them would let anybody choose an address. */
function readProxies(value: string, context: z.RefinementCtx): string[] | null {
  if (value === 'false') return null;
  const names = ['loopback', 'linklocal', 'uniquelocal'];
  const entries = listOf(value);
  const known = (entry: string) =>
    names.includes(entry) || (isIP(entry.replace(/\/\d{1,3}$/, '')) !== 0 && entry.split('/').length <= 2);
  if (entries.length > 0 && entries.every(known)) return entries;
  context.addIssue({
    code: 'custom',
    message: 'must be false, or addresses, networks, loopback, linklocal or uniquelocal, separated by commas',
  });
  return z.NEVER;
}

/** Addresses with ports, separated by commas. */
function readNodes(value: string, context: z.RefinementCtx): { host: string; port: number }[] {
  const nodes = listOf(value).map((entry) => /^(?:\[([\da-f:]+)\]|([\w.-]+)):(\d{1,5})$/i.exec(entry));
  if (nodes.every((match) => match && Number(match[3]) <= 65_535)) {
    return nodes.map((match) => ({ host: match?.[1] ?? match?.[2] ?? '', port: Number(match?.[3]) }));
  }
  context.addIssue({ code: 'custom', message: 'must be HOST:PORT, separated by commas' });
  return z.NEVER;
}

function listOf(value: string): string[] {
  return value
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');
}
