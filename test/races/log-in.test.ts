import { test } from 'tap';
import { initialState } from '../../src/domain/sessions/rotation.ts';
import { redisMissing } from '../support/redis.ts';
import { duringUncommitted, raceWorld } from './world.ts';
import { ROOM } from '../support/token.ts';

const session = { name: 'Firefox', createdAt: 1, state: initialState(1_000_000, 'home') };

test(
  'login against disable: no session opens once the account is disabled',
  { skip: redisMissing },
  async (t) => {
    const { url, tokens, key } = await raceWorld(t);
    const added = await duringUncommitted(
      url,
      `UPDATE users SET disabled_at = now() WHERE id = ${key.userId}`,
      () => tokens.addSession(key.userId, session, ROOM),
    );
    t.equal(added, null);
    t.equal((await tokens.list(key.userId)).length, 1);
  },
);

test(
  'the 101st session: of logins that race for the last place one stays',
  { skip: redisMissing },
  async (t) => {
    const { tokens, key } = await raceWorld(t);
    const logIn = () => tokens.addSession(key.userId, session, { ...ROOM, limit: 2 });
    const added = await Promise.all(Array.from({ length: 6 }, logIn));
    t.equal((await tokens.list(key.userId)).length, 2);
    t.equal(added.flatMap((one) => one?.replaced ?? []).length, 5);
  },
);
