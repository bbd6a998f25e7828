import { loadSettings } from '../config/config.ts';
import { ENDED_SHOWN } from '../domain/tokens/ended-token.ts';
import { purgeKnownDevices } from '../infra/postgres/known-devices.ts';
import { recordPurge } from '../infra/postgres/last-purge.ts';
import { purgeReservedNames } from '../infra/postgres/names.ts';
import { purgeTokens } from '../infra/postgres/one-time-tokens.ts';
import { purge, purgeDeletedUsers, purgeSetUps } from '../infra/postgres/purge.ts';
import { purgeImports } from '../infra/postgres/user-imports.ts';
import { purgeMails } from '../infra/postgres/wanted-mails.ts';
import type { Command } from './command.ts';
import { withPostgres } from './database.ts';

/** `latchkey purge`. */
export const run: Command = async ({ env }) => {
  const config = loadSettings(env, 'REFRESH_TOKEN_TTL', 'SESSION_CACHE_TTL');
  return withPostgres(env, async ({ prisma }) => {
    const now = Date.now();
    const ttl = config.REFRESH_TOKEN_TTL * 1000;
    const endedBefore = now - Math.max(ENDED_SHOWN, 2 * config.SESSION_CACHE_TTL * 1000);
    const purged = await purge(prisma, {
      // Keep records for another lifetime: a lost write-behind batch may have left them too old, and the owner may
      // want to see why the session ended.
      unusedSince: (now - ttl - Math.max(ttl, ENDED_SHOWN)) * 1000,
      revokedBefore: endedBefore,
      expiredBefore: now - ENDED_SHOWN,
    });
    if (purged === null)
      return { result: { purged: 0, busy: true }, text: 'another purge is running', audited: { purged: 0 } };
    await purgeKnownDevices(prisma);
    await purgeTokens(prisma);
    await purgeSetUps(prisma);
    await purgeMails(prisma);
    await purgeImports(prisma);
    await purgeReservedNames(prisma);
    await purgeDeletedUsers(prisma, endedBefore);
    await recordPurge(prisma, purged);
    return { result: { purged }, text: `purged ${purged} records`, audited: { purged } };
  });
};
