import { databaseVariables, loadConfig, NO_HASHES } from '../config.ts';
import { ENDED_SHOWN } from '../domain/tokens/ended-token.ts';
import { makePostgres } from '../infra/postgres/client.ts';
import { purge } from '../infra/postgres/purge.ts';
import { databaseOf, type Command } from './command.ts';

/** `latchkey purge`. */
export const run: Command = async ({ env }) => {
  const { REFRESH_TOKEN_TTL, SESSION_CACHE_TTL } = env;
  const config = loadConfig({ ...databaseVariables(env), REFRESH_TOKEN_TTL, SESSION_CACHE_TTL }, NO_HASHES);
  const postgres = makePostgres({ ...databaseOf(env), pool: 1 });
  try {
    const now = Date.now();
    const ttl = config.REFRESH_TOKEN_TTL * 1000;
    const purged = await purge(postgres.prisma, {
      // A record may be behind by what write-behind has lost: one more lifetime for certainty. And its owner may want to
      // see what became of it.
      unusedSince: (now - ttl - Math.max(ttl, ENDED_SHOWN)) * 1000,
      revokedBefore: now - Math.max(ENDED_SHOWN, 2 * config.SESSION_CACHE_TTL * 1000),
    });
    if (purged === null) return { result: { purged: 0, busy: true }, text: 'another purge is at work' };
    return { result: { purged }, text: `purged ${purged} records` };
  } finally {
    await postgres.close();
  }
};
