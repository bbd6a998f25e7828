/** The public part of an account. E-mail address and password are write-only. */
export interface User {
  id: number;
  /** Canonical: NFKC, trimmed, lower-cased. */
  username: string;
  name: string;
  /** Milliseconds since 1970. */
  createdAt: number;
  disabled: boolean;
}
