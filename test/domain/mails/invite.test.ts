import { test } from 'tap';
import type { AuditEvent } from '../../../src/domain/audit/event.ts';
import { NO_REQUEST } from '../../../src/domain/audit/source.ts';
import { makeMails } from '../../../src/domain/mails/mails.ts';
import type { InvitationObstacle, MailStore } from '../../../src/domain/mails/wanted-mail.ts';
import { openLimits } from '../../support/open-limits.ts';

const SHOP = {
  serviceId: 'lkc_shop',
  name: 'shop',
  audience: null,
  proof: { by: 'secret' as const, secretHash: new Uint8Array(32) },
};

/** Ada, with id 7, is the only account. */
function aService({
  obstacle = null,
  freeIn = 0,
}: {
  obstacle?: InvitationObstacle | null;
  freeIn?: number;
}) {
  const events: AuditEvent[] = [];
  const limited: unknown[] = [];
  const none = () => Promise.reject(new Error('nobody asks'));
  const mails: MailStore = {
    check: none,
    wantReset: none,
    wantVerification: none,
    wantInvitation: (id) => Promise.resolve(id === 7 ? { obstacle, freeIn } : null),
    take: none,
    settle: none,
    markUndeliverable: none,
    verify: none,
    oldest: none,
    dropOverdue: none,
  };
  const { invite } = makeMails({
    mails,
    tokenStates: { now: none },
    finishUserChange: none,
    observe: { mail: () => undefined },
    limitGuess: openLimits([]).limitGuess,
    randomBytes: (size) => Buffer.alloc(size),
    audit: (event) => events.push(event),
    auditLimit: (key, event) => limited.push([key, event]),
  });
  return { events, limited, invite: (id = 7) => invite(id, SHOP, NO_REQUEST) };
}

test('an invitation that is wanted leaves an event, and one that is not says why', async (t) => {
  const wanted = aService({});
  t.equal(await wanted.invite(), null);
  t.strictSame(wanted.events, [{ event: 'user.invited_by_client', userId: 7, serviceId: 'lkc_shop' }]);
  for (const obstacle of ['disabled', 'undeliverable', 'used'] as const) {
    const { invite, events } = aService({ obstacle });
    t.equal(await invite(), obstacle);
    t.strictSame(events, []);
  }
});

test('an unknown account is refused, and so is one that has had its mails', async (t) => {
  const { invite, events, limited } = aService({ freeIn: 1001 });
  await t.rejects(invite(8), { code: 'user_unknown' });
  t.strictSame(limited, []);
  await t.rejects(invite(), { code: 'rate_limited', retryAfter: 2, reason: 'mails' });
  t.strictSame(limited, [
    ['mails:7', { event: 'limit.reached', limit: 'mails', windowSeconds: 3600, userId: 7 }],
  ]);
  t.strictSame(events, []);
});
