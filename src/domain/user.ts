/** The public part of an account. E-mail address and password are write-only. */
export interface User {
  id: number;
  /** Canonical: NFKC, trimmed, lower-cased. */
  username: string;
  name: string;
  /** Milliseconds since 1970. */
  createdAt: number;
  disabled: boolean;
  /** Whether its e-mail address is proved: a verification, a mailed reset, a service or an operator has said so. */
  emailVerified: boolean;
  /** What services let it do (roles.ts). */
  roles: string[];
  /**
   * How often something changed that services see of it, its e-mail address included. Absent in an answer of the fast
   * store, which may be behind the record; counts as 0.
   */
  version?: number;
}
