import { test } from 'tap';
import type { AuditEvent } from '../../../src/domain/audit/event.ts';
import { makeLogOut } from '../../../src/domain/sessions/log-out.ts';

function aWorld({ exists }: { exists: boolean }) {
  const asked: unknown[] = [];
  const events: AuditEvent[] = [];
  const logOut = makeLogOut({
    revoke: (...args) => {
      asked.push(args);
      return Promise.resolve(exists);
    },
    audit: (event) => events.push(event),
  });
  return { logOut, asked, events };
}

test('the token that is used is ended, and only as what it is', async (t) => {
  const { logOut, asked, events } = aWorld({ exists: true });
  await logOut({ userId: 7, tokenId: 11, type: 'access', generation: 5 });
  await logOut({ userId: 7, tokenId: 12, type: 'llt', generation: 0 });
  t.strictSame(asked, [
    [7, 11, 'session'],
    [7, 12, 'llt'],
  ]);
  t.strictSame(events, [
    { event: 'token.revoked', userId: 7, tokenId: 11, by: 11 },
    { event: 'token.revoked', userId: 7, tokenId: 12, by: 12 },
  ]);
});

test('a token without a record is no token', async (t) => {
  const { logOut, events } = aWorld({ exists: false });
  await t.rejects(logOut({ userId: 7, tokenId: 12, type: 'llt', generation: 0 }), { code: 'invalid_token' });
  t.strictSame(events, []);
});
