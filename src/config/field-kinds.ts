import { isIPv6 } from 'node:net';
import { z } from 'zod';
import { LIMITED } from '../domain/audience.ts';
import { lengthOf, parseUsername } from '../domain/identifiers.ts';
import { holdsCertificates } from '../infra/tls/certificates.ts';
import { listOf } from './networks.ts';
import type { LoggedRequests, RequestGroup } from '../telemetry/request-lines.ts';

/**
 * How an environment variable is read, and how docs/configuration.md describes it. Messages follow the variable's name
 * and never repeat its value: it may be a secret.
 */
export interface Field<Type> extends Description {
  schema: z.ZodType<Type, string | undefined>;
}

/** The columns of docs/configuration.md. */
export interface Description {
  /** The default, as a reader sees it. */
  defaultText: string;
  /** Type, unit and bounds. */
  type: string;
  meaning: string;
  /** Of a whole number. The schema of the chart's values has the same. */
  bounds?: { min: number; max: number };
  /** The service refuses to start in production without it. */
  required?: boolean;
  /** The service refuses to start in production with it, so the chart does not offer it. */
  refusedInProduction?: boolean;
  /** To be set when every replica is of this release, because the one before knows nothing of it. */
  waits?: boolean;
}

export interface Rate {
  count: number;
  seconds: number;
}

export function field<Type>(
  schema: z.ZodType<Type, string | undefined>,
  description: Description,
): Field<Type> {
  return { schema, ...description };
}

export function waiting<Type>(described: Field<Type>): Field<Type> {
  return { ...described, waits: true };
}

export function onByDefault(meaning: string): Field<boolean> {
  return field(onOrOff().default('true').transform(isOn), {
    type: '`true`, `false`',
    defaultText: 'true',
    meaning,
  });
}

export function offByDefault(meaning: string): Field<boolean> {
  return field(onOrOff().default('false').transform(isOn), {
    type: '`true`, `false`',
    defaultText: 'false',
    meaning,
  });
}

/** On or off by something else: undefined if it is not set, and config.ts then knows. */
export function onBy(defaultText: string, meaning: string): Field<boolean | undefined> {
  const schema = onOrOff()
    .optional()
    .transform((value) => (value === undefined ? undefined : isOn(value)));
  return field(schema, { type: '`true`, `false`', defaultText, meaning });
}

function onOrOff() {
  return z.enum(['true', 'false'], 'must be true or false');
}

function isOn(value: string): boolean {
  return value === 'true';
}

/** @param unit empty for a plain number */
export function integer(
  min: number,
  max: number,
  fallback: number,
  unit: string,
  meaning: string,
): Field<number> {
  const schema = z.string().default(String(fallback)).pipe(wholeNumber(min, max));
  const type = `${unit || 'number'}, ${min} to ${max}`;
  return field(schema, { type, defaultText: String(fallback), meaning, bounds: { min, max } });
}

export function wholeNumber(min: number, max: number) {
  const message = `must be a whole number from ${min} to ${max}`;
  return z
    .string()
    .regex(/^\d{1,15}$/, message)
    .transform(Number)
    .refine((value) => value >= min && value <= max, message);
}

export function url(protocols: string[]) {
  const message = `must be a URL (${protocols.map((protocol) => `${protocol}//`).join(' or ')})`;
  // URL reads `http:a` and `https:/a` as well.
  const isWritten = (value: string) =>
    protocols.some((protocol) => value.toLowerCase().startsWith(`${protocol}//`));
  return z.string().refine((value) => URL.canParse(value) && isWritten(value), message);
}

/** For `transform`: a reader that returns a text if it refuses the value. */
export function orIssue<Value extends object>(read: (text: string) => Value | string) {
  return (text: string, context: z.RefinementCtx): Value => {
    const value = read(text);
    if (typeof value !== 'string') return value;
    context.addIssue({ code: 'custom', message: value });
    return z.NEVER;
  };
}

/** The Key URI format of authenticator apps separates the name from the username by a colon. */
export function isFactorIssuer(text: string): boolean {
  return (
    text.trim() !== '' &&
    lengthOf(text) <= 64 &&
    !/[:\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u.test(text)
  );
}

/** FACTOR_ISSUER. */
export function factorIssuer() {
  return z.string().refine(isFactorIssuer, 'must have 1 to 64 visible characters, without a colon');
}

/** PEM certificates, usually given as a file. @param name of the variable. */
export function certificates(name: string): Field<string | undefined> {
  const schema = z.string().refine(holdsCertificates, 'must be certificates in PEM').optional();
  return field(schema, {
    type: 'PEM certificates',
    defaultText: "Node's list",
    meaning: `CA of the servers' certificates; usually given as \`${name}_FILE\``,
  });
}

/** Otherwise software that is set to it would take limited tokens for the users' own. */
export function audience() {
  return z.string().refine((value) => !value.endsWith(LIMITED), `must not end in ${LIMITED}`);
}

/** A URL that is compared as text, or that later code appends a path to (an issuer: RFC 8414, section 2). */
export function plainUrl() {
  return (
    url(['http:', 'https:'])
      .refine((value) => !/[?#]/.test(value), 'must hold no query or fragment')
      // URL drops some of it.
      .refine((value) => !/[\s\p{Cc}]/u.test(value), 'must hold no whitespace')
  );
}

/** `count/seconds`; `0` means off and is read as null. */
export function rate(fallback: string, meaning: string): Field<Rate | null> {
  const message = 'must be COUNT/SECONDS, at most 9999999/999999, or 0 for no limit';
  const schema = z
    .string()
    .regex(/^(0|[1-9]\d{0,6}\/[1-9]\d{0,5})$/, message)
    .default(fallback)
    .transform((value) => {
      const [count, seconds] = value.split('/').map(Number);
      return count && seconds ? { count, seconds } : null;
    });
  return field(schema, {
    type: 'count/seconds, at most 9999999/999999, or `0` for off',
    defaultText: fallback,
    meaning,
  });
}

/** Usernames, separated by commas, in their canonical form; `none` is an empty list. */
export function usernames(
  fallback: string,
  description: Pick<Description, 'defaultText' | 'meaning'>,
): Field<string[]> {
  const schema = z
    .string()
    .default(fallback)
    .transform((value, context) => {
      const parsed = value === 'none' ? [] : listOf(value).map(parseUsername);
      if (parsed.every(({ ok }) => ok)) return parsed.flatMap((name) => (name.ok ? [name.value] : []));
      context.addIssue({ code: 'custom', message: 'must be usernames, separated by commas, or none' });
      return z.NEVER;
    });
  return field(schema, { type: 'list of usernames, or `none`', ...description });
}

function isPort(value: number): boolean {
  return value >= 1 && value <= 65_535;
}

/** Addresses with ports, separated by commas. */
export function readNodes(value: string, context: z.RefinementCtx): { host: string; port: number }[] {
  const nodes = listOf(value).map((entry) => /^(?:\[([\da-f:]+)\]|([\w.-]+)):(\d{1,5})$/i.exec(entry));
  if (nodes.every((match) => match && isPort(Number(match[3])) && isIPv6(match[1] ?? '::'))) {
    return nodes.map((match) => ({ host: match?.[1] ?? match?.[2] ?? '', port: Number(match?.[3]) }));
  }
  context.addIssue({ code: 'custom', message: 'must be HOST:PORT, separated by commas' });
  return z.NEVER;
}

/** CORS_ORIGINS: exact origins, separated by commas. Null for none, or after issues were added to `context`. */
export function readOrigins(value: string, context: z.RefinementCtx): string[] | null {
  const entries = listOf(value);
  const problems = entries.map(problemOf).filter((problem) => problem !== null);
  for (const message of problems) context.addIssue({ code: 'custom', message });
  return problems.length > 0 || entries.length === 0 ? null : [...new Set(entries)];
}

/** Why an entry is not an origin as browsers and the shells of apps send it; null if it is one. */
function problemOf(entry: string): string | null {
  if (entry.includes('*')) return 'must name each origin: with * every website could call the API';
  if (entry === 'null') return 'must not hold null: sandboxed pages of every website send it';
  const url = URL.canParse(entry) ? new URL(entry) : null;
  if (url?.protocol === 'file:')
    return 'must not hold file: origins: all pages that are opened as files have the same one';
  if (url === null || url.host === '')
    return 'must hold origins such as https://app.example.com or capacitor://localhost, separated by commas';
  // The entry itself may hold a password. `URL` has an origin, and lowers capitals, for http and https only.
  const origin = `${url.protocol}//${url.host}`.toLowerCase();
  return origin === entry
    ? null
    : `must hold origins as browsers send them, in lower case, without path or trailing slash: write ${origin}`;
}

/**
 * WEBAUTHN_RP_ID: a domain as browsers write it (WebAuthn Level 3, section 4). They accept neither an address
 * nor a name such as `com`. Null for none.
 */
export function rpId() {
  const isDomain = (value: string) =>
    URL.canParse(`https://${value}`) &&
    new URL(`https://${value}`).host === value &&
    !/[:[\]]|^[\d.]+$|\.$/.test(value) &&
    (value === 'localhost' || value.includes('.'));
  return z
    .string()
    .refine(isDomain, 'must be a domain such as example.com, in lower case')
    .optional()
    .transform((value) => value ?? null);
}

/** What Android's credential manager sends: the SHA-256 of the certificate that signed the app. */
const ANDROID_ORIGIN = /^android:apk-key-hash(-sha256)?:([\w+/-]{43}=?)$/;

/**
 * WEBAUTHN_ORIGINS: compared as text with what browsers and apps send. Whether they fit the RP ID is checked
 * later.
 */
export function readPasskeyOrigins(value: string, context: z.RefinementCtx): string[] {
  const entries = listOf(value);
  for (const entry of entries) {
    const problem = ANDROID_ORIGIN.test(entry) ? null : problemOfPage(entry);
    if (problem !== null) context.addIssue({ code: 'custom', message: problem });
  }
  return [...new Set(entries)];
}

function problemOfPage(entry: string): string | null {
  const url = URL.canParse(entry) ? new URL(entry) : null;
  const isWeb = url?.protocol === 'https:' || url?.protocol === 'http:';
  if (url === null || !isWeb || entry.includes('*'))
    return 'must hold origins such as https://app.example.com or android:apk-key-hash:HASH, separated by commas';
  if (url.origin !== entry)
    return `must hold origins as browsers send them, without path or trailing slash: write ${url.origin}`;
  return url.protocol === 'http:' && !isOfDomain(entry, 'localhost')
    ? 'must begin with https://, except on localhost'
    : null;
}

/** Whether the page or app of an origin may use passkeys of a domain. */
export function isOfDomain(origin: string, domain: string): boolean {
  if (ANDROID_ORIGIN.test(origin)) return true;
  const { hostname } = new URL(origin);
  return hostname === domain || hostname.endsWith(`.${domain}`);
}

/** The groups of routes that LOG_REQUESTS names, and which of their requests leave a line by default. */
const DEFAULTS: Readonly<Record<RequestGroup, LoggedRequests>> = {
  verify: 'failures',
  introspection: 'failures',
  refresh: 'failures',
  documents: 'failures',
  other: 'all',
};

const CHOICES: readonly LoggedRequests[] = ['all', 'failures', 'none'];

/** `all`, or `verify=all,refresh=none`: choices for all groups or for one, separated by commas; the last one counts. */
export function readRequestLog(
  value: string,
  context: z.RefinementCtx,
): Record<RequestGroup, LoggedRequests> {
  const chosen = { ...DEFAULTS };
  const groups = Object.keys(DEFAULTS) as RequestGroup[];
  for (const entry of listOf(value)) {
    const [, group, choice] = /^(?:(\w+)=)?(\w+)$/.exec(entry) ?? [];
    const named = groups.filter((each) => group === undefined || each === group);
    const logged = CHOICES.find((each) => each === choice);
    if (named.length === 0 || logged === undefined) {
      const message = `must be all, failures or none, or a list such as verify=all,refresh=none of ${groups.join(', ')}`;
      context.addIssue({ code: 'custom', message });
      break;
    }
    for (const each of named) chosen[each] = logged;
  }
  return chosen;
}
