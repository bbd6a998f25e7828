import type { Kind } from './needles.ts';

type Secret = [kind: Kind, value: string];

const JWT = /\beyJ[\w-]{8,}\.[\w-]+\.([\w-]{12,})/g;
const AUTHORIZATION = /^authorization: *(bearer|basic) +([^\r\n]+)/gim;
const JSON_STRING = /"(\w+)"\s*:\s*("(?:[^"\\]|\\.)*")/g;
/** The only list of secrets in an answer. */
const RECOVERY_CODES = /"recovery_codes"\s*:\s*\[([^\]]*)\]/g;
const FORM_VALUE = /(?:^|[?&\n])(\w+)=([^&\s]+)/g;

/** Secrets by the names of the members and parameters that hold them. */
const BY_NAME: [name: RegExp, kind: Kind][] = [
  [/password(_hash)?$/i, 'password'],
  [/^(e?mail|pending)$/i, 'e-mail address'],
  [/token$/i, 'token'],
  [/^(totp_)?secret$|^otpauth_uri$|^recovery_code$/i, 'second factor'],
  [/secret$/i, 'client secret'],
  // An answer that was not used yet logs its user in for 5 minutes. The ids tell people apart, across services too.
  [/^(signature|clientDataJSON|authenticatorData|attestationObject)$/, 'passkey'],
  [/^(challenge|rawId|userHandle)$/, 'passkey'],
];

/** The secrets in the bytes of a connection, in either direction. The text may begin and end anywhere. */
export function* secretsInHttp(text: string): Generator<Secret> {
  // The signature alone identifies a token: all headers are the same.
  for (const [token, signature = ''] of text.matchAll(JWT)) {
    yield ['token', token];
    yield ['token', signature];
  }
  for (const [, scheme = '', credentials = ''] of text.matchAll(AUTHORIZATION)) {
    yield ['token', credentials];
    if (/basic/i.test(scheme)) yield* basicSecrets(credentials);
  }
  for (const [, name = '', json = ''] of text.matchAll(JSON_STRING)) {
    const value = parsed(json);
    yield* named(name, value);
    // A user may log in with an e-mail address.
    if (name === 'username' && value.includes('@')) yield ['e-mail address', value];
  }
  for (const [, list = ''] of text.matchAll(RECOVERY_CODES))
    for (const [, code = ''] of list.matchAll(/"([^"]+)"/g)) yield ['second factor', code];
  for (const [, name = '', value = ''] of text.matchAll(FORM_VALUE)) yield* named(name, decoded(value));
}

function* named(name: string, value: string): Generator<Secret> {
  const [, kind] = BY_NAME.find(([pattern]) => pattern.test(name)) ?? [];
  if (kind) yield [kind, value];
}

function* basicSecrets(credentials: string): Generator<Secret> {
  const text = Buffer.from(credentials, 'base64').toString();
  if (text.includes(':')) yield ['client secret', decoded(text.slice(text.indexOf(':') + 1))];
}

function parsed(json: string): string {
  try {
    return String(JSON.parse(json));
  } catch {
    return json.slice(1, -1);
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return text;
  }
}
