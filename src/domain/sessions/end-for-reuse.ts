import { AuthError } from '../errors.ts';
import type { Revoke } from '../tokens/revoke.ts';
import type { TokenKey } from './ports.ts';

/**
 * Ends sessions whose superseded token came back. The fast store refuses such a session already, in the very step that
 * found the theft; the record has to follow, or a rebuild would bring the session back. While the record cannot be
 * written it stays queued here, and each retry renews the tombstone.
 */
export function makeEndForReuse({ revoke }: { revoke: Revoke }) {
  const queued = new Map<number, TokenKey>();

  async function end(key: TokenKey): Promise<void> {
    try {
      await revoke(key.userId, key.tokenId, 'session');
      queued.delete(key.tokenId);
    } catch (error) {
      if (!(error instanceof AuthError && error.code === 'unavailable')) throw error;
      queued.set(key.tokenId, key);
    }
  }

  return {
    end,
    /** Tries again what could not be written. */
    async retry(): Promise<void> {
      for (const key of queued.values()) await end(key);
    },
    size: () => queued.size,
  };
}

export type EndForReuse = ReturnType<typeof makeEndForReuse>;
