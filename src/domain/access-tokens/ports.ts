/** A key that signs and verifies; PEM, so that any JWT library takes it. */
export interface SigningKey {
  /** RFC 7638 thumbprint of the public key. */
  kid: string;
  algorithm: 'ES256' | 'EdDSA' | 'RS256';
  privateKey: string;
  publicKey: string;
  /** As far as that can be known: from the date in its file's name, or when that was written. Milliseconds since 1970. */
  createdAt: number;
}

/** A secret for refresh tokens (HS256). */
export interface RefreshSecret {
  /** Taken from a hash of the secret. */
  kid: string;
  secret: Buffer;
}

export interface KeySet {
  /** The first signs; all verify. Never empty. */
  signing: readonly SigningKey[];
  /** The first signs; all verify. Never empty. */
  refresh: readonly RefreshSecret[];
}

/** The keys in use, which change while the service runs. */
export interface KeyRing {
  current(): KeySet;
  /** Looks for new keys now, at most once a second: a token may be signed by a key that has only just been added. */
  reload(): Promise<KeySet>;
  /** Calls back after every change. */
  onChange(listener: (keys: KeySet) => Promise<void>): void;
}
