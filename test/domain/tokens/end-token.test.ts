import { NO_REQUEST } from '../../../src/domain/audit/source.ts';
import { test } from 'tap';
import type { Caller } from '../../../src/domain/principal.ts';
import type { AuditEvent } from '../../../src/domain/audit/event.ts';
import type { ServiceIdentity } from '../../../src/domain/services/registered-service.ts';
import { makeEndToken } from '../../../src/domain/tokens/end-token.ts';
import { aUser, NO_FACTOR } from '../../support/token.ts';

function aWorld({ exists, isRepeat = false }: { exists: boolean; isRepeat?: boolean }) {
  const asked: unknown[] = [];
  const events: AuditEvent[] = [];
  const revoke = (...args: unknown[]) => {
    const isCallback = (arg: unknown): arg is () => void => typeof arg === 'function';
    asked.push(args.filter((arg) => !isCallback(arg)));
    if (exists && !isRepeat) args.find(isCallback)?.();
    return Promise.resolve(exists);
  };
  const endings = makeEndToken({
    revoke,
    revokeByCaller: revoke,
    audit: (event) => events.push(event),
  });
  return { ...endings, asked, events };
}

const service = { serviceId: 'kitchen' } as ServiceIdentity;

test('a token ends itself, and only as its own type', async (t) => {
  const world = aWorld({ exists: true });
  const { asked, events } = world;
  await world.logOut({ userId: 7, tokenId: 11, type: 'access', generation: 5 }, NO_REQUEST);
  await world.logOut({ userId: 7, tokenId: 12, type: 'llt', generation: 0 }, NO_REQUEST);
  t.strictSame(asked, [
    [7, 11, 'session'],
    [7, 12, 'llt'],
  ]);
  t.strictSame(events, [
    { event: 'token.revoked', userId: 7, tokenId: 11, by: 11, type: 'session' },
    { event: 'token.revoked', userId: 7, tokenId: 12, by: 12, type: 'llt' },
  ]);
});

test('a repeat succeeds, and is no event', async (t) => {
  const world = aWorld({ exists: true, isRepeat: true });
  await world.logOut({ userId: 7, tokenId: 11, type: 'access', generation: 5 }, NO_REQUEST);
  await world.endToken(aCaller('access'), 13, NO_REQUEST);
  await world.revokeToken(service, { userId: 7, tokenId: 11, type: 'access', generation: 5 }, NO_REQUEST);
  t.strictSame(world.events, []);
});

test('a token without a record is invalid', async (t) => {
  const world = aWorld({ exists: false });
  const { events } = world;
  await t.rejects(world.logOut({ userId: 7, tokenId: 12, type: 'llt', generation: 0 }, NO_REQUEST), {
    code: 'invalid_token',
    reason: 'gone',
  });
  t.strictSame(events, []);
});

function aCaller(type: Caller['type']): Caller {
  const session = { tokenId: 11, generation: 5, createdAt: 0, ...NO_FACTOR };
  return { user: aUser({ id: 7 }), type, ...session, checkedAfterBody: true };
}

test('a session ends another token of its owner; an LLT cannot', async (t) => {
  const world = aWorld({ exists: true });
  const { asked, events } = world;
  await world.endToken(aCaller('access'), 12, NO_REQUEST, 'llt');
  t.strictSame(asked, [[{ userId: 7, tokenId: 11 }, 12, 'llt']]);
  t.strictSame(events, [{ event: 'token.revoked', userId: 7, tokenId: 12, by: 11, type: 'llt' }]);
  await t.rejects(world.endToken(aCaller('llt'), 12, NO_REQUEST), { code: 'token_not_allowed' });
  t.equal(asked.length, 1, 'an LLT reaches no record');
});

test('another token without a record is unknown', async (t) => {
  const world = aWorld({ exists: false });
  const { events } = world;
  await t.rejects(world.endToken(aCaller('access'), 12, NO_REQUEST), { code: 'token_unknown' });
  t.strictSame(events, []);
});

test('a service ends a session by any of its tokens, and a repeat is a no-op', async (t) => {
  const known = aWorld({ exists: true });
  await known.revokeToken(service, { userId: 7, tokenId: 11, generation: 5, type: 'refresh' }, NO_REQUEST);
  t.strictSame(known.asked, [[7, 11, 'session', 'service']], 'in the turn of services');
  t.strictSame(known.events, [
    { event: 'token.revoked_by_client', userId: 7, tokenId: 11, serviceId: 'kitchen' },
  ]);
  const gone = aWorld({ exists: false });
  await gone.revokeToken(service, { userId: 7, tokenId: 12, generation: 0, type: 'llt' }, NO_REQUEST);
  t.strictSame(gone.asked, [[7, 12, 'llt', 'service']]);
  t.strictSame(gone.events, []);
});
