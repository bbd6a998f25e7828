import { makeAccountStore } from '../infra/postgres/account-store.ts';
import { makeFactorStore } from '../infra/postgres/factor-store.ts';
import { NO_NAMES } from './account-settings.ts';
import { isoOrNull, type Act } from './command.ts';
import { removeFactors } from './user-changes.ts';

/** `latchkey user factors`: what the owner sees at `GET /api/user/factors`. @throws AuthError `unavailable` */
export const factors: Act = async (postgres, user, invocation) => {
  if (invocation.values.remove) return removeFactors(postgres, user, invocation);
  const account = await makeAccountStore(postgres, NO_NAMES).find(user);
  const found = account && (await makeFactorStore(postgres).list(account.id));
  if (!found) return null;
  const shown = found.factors.map(({ id, type, name, createdAt, lastUsedAt }) => ({
    id,
    type,
    name,
    created_at: isoOrNull(createdAt),
    last_used_at: isoOrNull(lastUsedAt),
  }));
  const lines = shown.map(
    ({ id, type, name, created_at: created, last_used_at: used }) =>
      `${id}  ${type}  ${JSON.stringify(name)}  created ${created}  last used ${used ?? 'never'}`,
  );
  return {
    result: { user: account.id, factors: shown, recovery_codes_left: found.codesLeft },
    text:
      lines.length === 0
        ? 'no second factor'
        : [...lines, `${found.codesLeft} recovery codes left`].join('\n'),
    audited: { userId: account.id },
  };
};
