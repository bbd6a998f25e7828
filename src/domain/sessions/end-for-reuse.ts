import { AuthError } from '../errors.ts';
import type { Revoke } from '../tokens/revoke.ts';
import type { SessionStateStore, TokenKey } from './ports.ts';

interface EndForReusePorts {
  revoke: Revoke;
  states: Pick<SessionStateStore, 'revokeAll'>;
}

/**
 * Ends sessions whose superseded token came back. The fast store refuses such a session already, in the very step that
 * found the theft; the record has to follow, or a rebuild would bring the session back. While the record cannot be
 * written it stays queued here, and each retry renews the tombstone, which tells everybody else until the record knows.
 */
export function makeEndForReuse({ revoke, states }: EndForReusePorts) {
  const queued = new Map<number, TokenKey>();

  async function end(key: TokenKey): Promise<void> {
    // Queued first: whatever fails from here on, it is tried again.
    queued.set(key.tokenId, key);
    try {
      await revoke(key.userId, key.tokenId, 'session', 'reuse');
      queued.delete(key.tokenId);
    } catch (error) {
      if (!(error instanceof AuthError && error.code === 'unavailable')) throw error;
    }
  }

  return {
    end,
    /** Leaves it to the next retry. @returns false where it is queued already. */
    queue(key: TokenKey): boolean {
      if (queued.has(key.tokenId)) return false;
      queued.set(key.tokenId, key);
      return true;
    },
    /** Renews the tombstones of what could not be written, and tries to write it again. */
    async retry(): Promise<void> {
      const keys = [...queued.values()];
      if (keys.length === 0) return;
      await states.revokeAll(keys, 'reused');
      await Promise.all(keys.map(end));
    },
    size: () => queued.size,
  };
}

export type EndForReuse = ReturnType<typeof makeEndForReuse>;
