/**
 * What an operator wants to be able to look up later. Ids only: no name, address, token or password is ever in one.
 */
export type AuditEvent =
  | { event: 'user.signed_up'; userId: number; tokenId: number }
  | { event: 'session.created'; userId: number; tokenId: number }
  | { event: 'session.replaced'; userId: number; tokenId: number; by: number }
  /** Once for whoever finds it, until the record knows; the generation is the presented token's. */
  | { event: 'session.reuse_detected'; userId: number; tokenId: number; generation: number }
  | { event: 'login.failed'; reason: 'unknown' | 'password' | 'disabled'; userId?: number }
  | { event: 'llt.created'; userId: number; tokenId: number }
  | { event: 'token.revoked'; userId: number; tokenId: number; by: number }
  /** Everywhere; `before` as in TokenStore.revokeAll. */
  | { event: 'user.logged_out'; userId: number; by: number; tokenIds: number[]; before: number | null }
  | { event: 'token.revoked_by_client'; userId: number; tokenId: number; clientId: string }
  | { event: 'clock.wrong'; userId: number; tokenId: number };

export type Audit = (event: AuditEvent) => void;
