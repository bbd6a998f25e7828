import { test } from 'tap';
import type { AuditEvent } from '../../src/domain/audit/event.ts';
import { NO_REQUEST } from '../../src/domain/audit/source.ts';
import { makeOpenSession } from '../../src/domain/sessions/open-session.ts';
import { initialState } from '../../src/domain/sessions/rotation.ts';
import { makeEndToken } from '../../src/domain/tokens/end-token.ts';
import type { TokenStore } from '../../src/domain/tokens/ports.ts';
import { makeRevokeTokens } from '../../src/domain/tokens/revoke.ts';
import { inTransaction } from '../../src/infra/postgres/prepared.ts';
import { makeTokenStore } from '../../src/infra/postgres/token-store.ts';
import { systemClock } from '../../src/runtime/system-clock.ts';
import { someQueues } from '../support/bounded-queues.ts';
import { locksAwaited } from '../support/begun.ts';
import { redisMissing } from '../support/redis.ts';
import { duringUncommitted, raceWorld } from './world.ts';
import { LIFETIMES, ROOM } from '../support/token.ts';

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

test(
  'the 101st session against a logout of the one that it would replace: one of them reports the end',
  { skip: redisMissing },
  async (t) => {
    const { url, postgres, tokens, tokenStates, revocations, key } = await raceWorld(t);
    const events: AuditEvent[] = [];
    const audit = (event: AuditEvent) => void events.push(event);
    const openSession = makeOpenSession({
      tokens,
      tokenStates,
      revocations,
      audit,
      lifetimes: LIFETIMES,
      maxSessions: 1,
    });
    const proven = { password: { ...key, passwordVersion: 0, enabledAt: 0 }, factor: null };
    const origin = { fingerprints: [], token: null };
    let login: ReturnType<typeof openSession> | undefined;
    /** The logout's own statement, which commits once the login waits for the row. */
    const revokeMany: TokenStore['revokeMany'] = (...args) =>
      postgres.prisma.$transaction(async (tx) => {
        const open = makeTokenStore({ ...postgres, run: inTransaction(tx) }, LIFETIMES);
        const outcomes = await open.revokeMany(...args);
        login = openSession({ ...proven, device: 'b', caller: 'c', origin, from: NO_REQUEST });
        await locksAwaited(url);
        return outcomes;
      });
    const endings = makeEndToken({
      ...makeRevokeTokens({
        ...someQueues(),
        tokenStates,
        tokens: { ...tokens, revokeMany },
        revocations,
        clock: systemClock,
        endOfTick: () => Promise.resolve(),
        pause: () => Promise.resolve(),
      }),
      audit,
    });
    await endings.logOut({ ...key, generation: 1, type: 'access' }, NO_REQUEST);
    t.ok(await login);
    const ends = events.filter((event) => event.event !== 'session.created');
    t.match(ends, [{ event: 'token.revoked', tokenId: key.tokenId }]);
    t.equal(ends.length, 1);
  },
);
