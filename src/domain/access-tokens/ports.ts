/** A key that signs and verifies; PEM, so that any JWT library takes it. */
export interface SigningKey {
  /** RFC 7638 thumbprint of the public key. */
  kid: string;
  algorithm: 'ES256' | 'EdDSA' | 'RS256';
  privateKey: string;
  publicKey: string;
  /** The public key alone, as the JWKS shows it. */
  jwk: PublicJwk;
  /** From the date in the file's name, or else the file's last change. Milliseconds since 1970. */
  createdAt: number;
}

/** RFC 7517, section 4: the members of EC, OKP and RSA public keys. */
export interface PublicJwk {
  kty: string;
  crv?: string;
  x?: string;
  y?: string;
  n?: string;
  e?: string;
}

/** A secret for refresh tokens (HS256). */
export interface RefreshSecret {
  /** Taken from a hash of the secret. */
  kid: string;
  secret: Buffer;
}

export interface KeySet {
  /**
   * The first one signs. The others follow by file name, the highest first. All verify and are published. Never empty.
   */
  signing: readonly SigningKey[];
  /** The first one signs; all verify. Never empty. */
  refresh: readonly RefreshSecret[];
}

/** The keys in use, which change while the service runs. */
export interface KeyRing {
  current(): KeySet;
  /** Looks for new keys now, at most once a second: a token may be signed by a key that has only just been added. */
  reload(): Promise<KeySet>;
  /** Whether the last look found keys of this kind that it could not read: an unknown one may be among them. */
  isIncomplete(kind: keyof KeySet): boolean;
  /**
   * Whether replicas sign with this key now, which this one does not have: an unknown key may be one that it has yet to
   * load. A key that was retired does not count.
   * @throws AuthError `unavailable`, also just after an outage if the key is not on record
   */
  isInUse(kid: string): Promise<boolean>;
  /** Calls back after every change. */
  onChange(listener: (keys: KeySet) => Promise<void>): void;
}

/** What a replica reports about its keys. */
export interface KeyNotes {
  /** The keys that it has, the highest file name first. */
  loaded: readonly string[];
  /** Those of them that it has not reported yet. */
  appeared: readonly string[];
  /** Those that it has reported, and that are no longer in its folder. */
  vanished: readonly string[];
  /** The one that it has signed with so far; null before it serves requests. */
  signing: string | null;
  /** The refresh secret that is to sign: it is on record before it does, so that no replica takes it for an invented one. */
  refresh: string;
}

/** A key that a replica has signed with lately, and that was not retired. */
export interface KeyInUse {
  kid: string;
  kind: keyof KeySet;
}

export interface Joined {
  missing: readonly KeyInUse[];
  /** Empty if keys are missing. */
  active: ReadonlySet<string>;
}

/** Shared by the replicas: which of their keys have been published for long enough to sign, and which ones sign. */
export interface KeyRegistry {
  /** @returns which of the keys may sign, the refresh secret included. @throws AuthError `unavailable` */
  note(notes: KeyNotes): Promise<ReadonlySet<string>>;
  /**
   * The first note of a replica, with which it begins to sign, unless it lacks keys in use. Of replicas that begin at
   * once, each sees those before it.
   * @param held every key and secret that it has. @param sinceLast as for `inUse`.
   * @returns the keys that it lacks, or else which ones may sign. @throws AuthError `unavailable`
   */
  join(notes: KeyNotes, held: readonly string[], sinceLast: boolean): Promise<Joined>;
  /**
   * @param sinceLast counts the 70 s from the newest record, and not from now: the record may have been away.
   * @throws AuthError `unavailable`
   */
  inUse(sinceLast: boolean): Promise<readonly KeyInUse[]>;
}
