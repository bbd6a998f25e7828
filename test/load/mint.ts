import type { Pool } from 'pg';
import type { Clock } from '../../src/domain/clock.ts';
import type { KeyRing } from '../../src/domain/access-tokens/ports.ts';
import { initialState } from '../../src/domain/sessions/rotation.ts';
import { makeTokenCodec } from '../../src/http/token-codec.ts';
import { makeTokenPairResponse } from '../../src/http/token-pair-response.ts';
import type { Config } from '../../src/config/config.ts';
import type { Pair } from '../support/client.ts';
import { seededAccount } from './seeded-accounts.ts';
import { UNOBSERVED } from '../support/unobserved.ts';

const BATCH = 5000;

const INSERT = `
  INSERT INTO tokens (user_id, type, name, created_at, latest, parent, first, confirmed, client)
  SELECT id, 'session', 'load', to_timestamp($2 / 1000.0), $3, $4, $5, $6, $7
  FROM users WHERE username = ANY ($1)
  RETURNING id, user_id`;

/**
 * Opens a session for each of the first seeded users, without a login: thousands of logins would take an hour of
 * hashing. Needs the service's keys, so only the kit's own service has such sessions. No replica holds them in its
 * fast store yet, as after a restart.
 */
export async function mintSessions(
  count: number,
  {
    pool,
    keyRing,
    config,
    clock,
  }: {
    pool: Pool;
    keyRing: KeyRing;
    config: Pick<
      Config,
      'ISSUER' | 'AUDIENCE' | 'ACCESS_TOKEN_TTL' | 'REFRESH_TOKEN_TTL' | 'SESSION_MAX_AGE'
    >;
    clock: Clock;
  },
): Promise<Pair[]> {
  const codec = await makeTokenCodec(keyRing, {
    config,
    clock,
    observe: UNOBSERVED,
  });
  const sign = makeTokenPairResponse(codec, config);
  const pairs: Pair[] = [];
  for (let from = 0; from < count; from += BATCH) {
    const accounts = Array.from({ length: Math.min(BATCH, count - from) }, (_, i) => seededAccount(from + i));
    const names = accounts.map(({ username }) => username);
    const { rows: users } = await pool.query<{ id: string; username: string }>(
      'SELECT id, username FROM users WHERE username = ANY ($1)',
      [names],
    );
    const createdAt = clock.now();
    const state = initialState(createdAt * 1000, '');
    const { rows: tokens } = await pool.query<{ id: string; user_id: string }>(INSERT, [
      names,
      createdAt,
      state.latest,
      state.parent,
      state.first,
      state.confirmed,
      state.caller,
    ]);
    const idOf = new Map(users.map(({ id, username }) => [username, id]));
    const tokenOf = new Map(tokens.map(({ id, user_id }) => [user_id, Number(id)]));
    for (const { username, name } of accounts) {
      const id = idOf.get(username) ?? '';
      const tokenId = tokenOf.get(id) ?? 0;
      const user = {
        id: Number(id),
        username,
        name,
        createdAt,
        disabled: false,
        emailVerified: false,
        roles: [],
      };
      pairs.push(sign({ user, tokenId, generation: state.latest, createdAt, acr: null }));
    }
  }
  return pairs;
}
