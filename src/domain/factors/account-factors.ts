import type { Audit } from '../audit/event.ts';
import type { Sourced } from '../audit/source.ts';
import type { Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import type { ServiceIdentity } from '../services/registered-service.ts';
import type { Lifetimes } from '../tokens/claims.ts';
import { liveIds, type FinishEndings } from '../tokens/finish-endings.ts';
import type { FactorList, FactorStore } from './ports.ts';

interface AccountFactorsPorts {
  factors: Pick<FactorStore, 'list' | 'removeAll'>;
  finishEndings: FinishEndings;
  lifetimes: Lifetimes;
  clock: Clock;
  audit: Audit;
}

/** What registered services may do with the second factors of accounts. */
export function makeAccountFactors({ factors, finishEndings, lifetimes, clock, audit }: AccountFactorsPorts) {
  return {
    /** @throws AuthError `user_unknown`, `unavailable` */
    list: async (id: number): Promise<FactorList> => existing(await factors.list(id)),

    /**
     * Removes all factors and recovery codes, and ends all tokens with the reason `admin`. A repeat is safe.
     * @returns how many live tokens this call has ended.
     * @throws AuthError `user_unknown`, `rate_limited`, `unavailable`
     */
    async removeAll(id: number, { serviceId }: ServiceIdentity, from: Sourced): Promise<number> {
      const at = clock.now();
      const removed = existing(await factors.removeAll({ id }, at));
      const tokenIds = liveIds(removed.ended, at, lifetimes);
      // Audited before the next step, whose failure a repeat would not find.
      if (removed.factors > 0 || removed.ended.length > 0)
        audit({ event: 'factors.removed_by_client', userId: id, serviceId, tokenIds }, from);
      await finishEndings(id, removed.before ?? 0);
      return tokenIds.length;
    },
  };
}

export type AccountFactors = ReturnType<typeof makeAccountFactors>;

/** @throws AuthError `user_unknown` */
function existing<Found>(found: Found | null): Found {
  if (found === null) throw new AuthError('user_unknown');
  return found;
}
