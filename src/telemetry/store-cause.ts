/** Why a store fails. Nothing in it is secret: drivers name users, hosts and tables, but no password and no value. */
export interface Cause {
  /** The driver's code: SQLSTATE, the first word of Redis's error, or an error of the network. */
  code: string;
  /** The driver's message. */
  reason: string;
  /** What an operator should do. */
  todo: string;
}

/** A store failed. For the log: the name is the store's. */
export class StoreError extends Error {
  readonly code: string;

  constructor(store: 'PostgreSQL' | 'Redis', code: string, message: string, cause: unknown) {
    super(message, { cause });
    this.name = store;
    this.code = code;
  }
}

/** What to do about errors of the network and of TLS, by the driver's code or message; the first match counts. */
const REMEDIES: readonly [RegExp, (url: string, ca: string) => string][] = [
  [/^(ENOTFOUND|EAI_AGAIN)/, (url) => `check the host in ${url}, and the DNS`],
  [/^(ECONNREFUSED|ENOENT)/, (url) => `check host and port in ${url}, and that the server runs`],
  [/^CERT_HAS_EXPIRED|certificate has expired/, () => "renew the server's certificate"],
  [/^CERT_NOT_YET_VALID/, () => "compare the clocks: the server's certificate is not valid yet by ours"],
  [
    /CERT|TLS|SSL|SIGNATURE|HOSTNAME_MISMATCH/,
    (url, ca) =>
      `check TLS: ${ca} must hold the CA of the server's certificate, which must name the host in ${url}`,
  ],
  [
    /^E[A-Z]+$|time.?out|terminated|closed|writeable/i,
    () => 'check the network, and that the server answers',
  ],
];

/**
 * The code of an error of the network or of TLS, and what to do about it; null if it is none.
 * @param url the variable that names the server. @param ca the variable that holds its CA.
 */
export function networkCause(error: Error, url: string, ca: string): Cause | null {
  const { code = '', message } = firstOf(error) as NodeJS.ErrnoException;
  for (const text of [code, message]) {
    const [, todo] = REMEDIES.find(([pattern]) => text !== '' && pattern.test(text)) ?? [];
    if (!todo) continue;
    return { code: code || codeOf(message), reason: message || code, todo: todo(url, ca) };
  }
  return null;
}

/** Node tries every address of a host, and wraps the failures in an error without a message. */
function firstOf(error: Error): Error {
  return error instanceof AggregateError && error.errors[0] instanceof Error ? error.errors[0] : error;
}

/** A code for the errors that have none. */
function codeOf(message: string): string {
  if (/SSL|TLS/.test(message)) return 'TLS';
  return /time.?out|timed out/i.test(message) ? 'timeout' : 'connection';
}
