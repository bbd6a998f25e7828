/** An account as everybody may see it. No e-mail address, no password: those are write-only. */
export interface User {
  id: number;
  /** Canonical: NFKC, trimmed, lower-cased. */
  username: string;
  name: string;
  /** Milliseconds since 1970. */
  createdAt: number;
  disabled: boolean;
}
