import { test } from 'tap';
import type { AuditEvent } from '../../../src/domain/audit/event.ts';
import { NO_REQUEST } from '../../../src/domain/audit/source.ts';
import { hashOneTimeToken } from '../../../src/domain/passwords/one-time-token.ts';
import type { TokenSummary } from '../../../src/domain/users/account-with-tokens.ts';
import type { AccountChanges, ChangedAccount } from '../../../src/domain/users/account.ts';
import { makeManageAccounts } from '../../../src/domain/users/manage-accounts.ts';
import { makeNewNames } from '../../../src/domain/users/new-names.ts';
import { aClock } from '../../support/clock.ts';
import { makeSteps } from '../../support/steps.ts';
import { aLongLived, aUser, LIFETIMES } from '../../support/token.ts';

const SHOP = {
  serviceId: 'lkc_shop',
  name: 'shop',
  audience: null,
  proof: { by: 'secret' as const, secretHash: new Uint8Array(32) },
};
const ADA = {
  ...aUser(),
  emailVerified: false,
  externalId: null,
  locale: null,
  emailDeliverable: true,
};
const ADDRESS = { email: 'ada@example.com', verified: true, pending: null, deliverable: true };
const RESERVATION = { grace: 1000, hashes: () => [] };
const SUMMARY: TokenSummary = {
  id: 12,
  type: 'llt',
  name: 'Kitchen tablet',
  createdAt: 1,
  createdBy: null,
  limited: null,
  lastUsedAt: null,
  expiresAt: null,
  current: false,
};

/**
 * Ada is the only account.
 * @param changed what the record says of a change or deletion.
 */
function aService({ away = '', ...changed }: Partial<ChangedAccount> & { away?: string } = {}) {
  const clock = aClock();
  const { done, step } = makeSteps(away);
  const events: AuditEvent[] = [];
  const isAda = (key: object) => 'id' in key && key.id === ADA.id;
  const answer: ChangedAccount = {
    account: ADA,
    isChanged: true,
    status: null,
    ended: [],
    before: 0,
    ...changed,
  };
  const accounts = makeManageAccounts({
    accounts: {
      find: (key) => Promise.resolve(isAda(key) ? ADA : null),
      address: (id) => Promise.resolve(id === ADA.id ? ADDRESS : null),
      page: (after, limit) => Promise.resolve(after < ADA.id && limit > 0 ? [ADA] : []),
      change: async (key, changes, at) => {
        await step('change', JSON.stringify(changes), at);
        return isAda(key) ? answer : null;
      },
      delete: async (key, at, { grace }) => {
        await step('delete', at, grace);
        return isAda(key) ? answer : null;
      },
    },
    tokens: {
      revokeAll: async (userId, { at, reason, caller }) => {
        await step('revoke', userId, at, reason, caller);
        const { ended, before } = answer;
        return { ended, before: before === 0 ? null : before };
      },
    },
    services: {
      admitAgain: async (service, right) => {
        await step('admit', service.name, right);
        return service;
      },
    },
    accountWithTokens: ({ user, tokenId }) =>
      Promise.resolve({ user, locale: null, tokens: user === ADA && tokenId === 0 ? [SUMMARY] : [] }),
    issueReset: async (key, tokenHash) => {
      await step('reset', Buffer.from(tokenHash).toString('hex'));
      return isAda(key) ? { userId: ADA.id, expiresAt: 99, disabled: false } : null;
    },
    tokenStates: {
      now: async () => {
        await step('now');
        return clock.micros();
      },
    },
    finishEndings: (userId, before) => step('end', userId, before),
    finishUserChange: (user, status) => step('tell', user.id, status),
    newNames: makeNewNames(['admin']),
    reservation: RESERVATION,
    randomBytes: (size) => Buffer.alloc(size, 1),
    lifetimes: LIFETIMES,
    clock,
    audit: (event) => events.push(event),
  });
  return {
    clock,
    done,
    events,
    accounts,
    change: (changes: AccountChanges, id = 7) => accounts.change(id, changes, SHOP, NO_REQUEST),
    remove: (id = 7) => accounts.delete(id, SHOP, NO_REQUEST),
    endTokens: (id = 7) => accounts.endTokens(id, SHOP, NO_REQUEST),
    reset: (id = 7) => accounts.resetPassword(id, SHOP, NO_REQUEST),
  };
}

/** A live token, and one that has expired. */
const ENDED = [aLongLived(), aLongLived({ id: 13, expiresAt: 1 })];
const BY_SHOP = { userId: 7, serviceId: 'lkc_shop' };

test('accounts are found, and listed with their live tokens', async (t) => {
  const { accounts } = aService();
  t.equal(await accounts.find({ id: 7 }), ADA);
  t.equal(await accounts.find({ id: 8 }), null);
  t.equal(await accounts.get(7), ADA);
  t.strictSame(await accounts.page(6, 1), [ADA]);
  t.strictSame(await accounts.listTokens(7), [SUMMARY]);
  t.equal(await accounts.address(7), ADDRESS);
});

test('an unknown account is refused, and nothing is told of it', async (t) => {
  const { done, events, accounts, change, remove, endTokens, reset } = aService();
  const asking: Promise<unknown>[] = [
    accounts.get(8),
    accounts.listTokens(8),
    accounts.address(8),
    change({ roles: [] }, 8),
    remove(8),
    endTokens(8),
    reset(8),
  ];
  for (const each of asking) await t.rejects(each, { code: 'user_unknown' });
  t.notOk(done.some((step) => step.startsWith('revoke') || step.startsWith('tell')));
  t.strictSame(events, []);
});

test('a change takes canonical names, and is reported by the API’s names of its fields', async (t) => {
  const { clock, done, events, change } = aService();
  t.equal(await change({ username: ' Countess', emailVerified: true, roles: ['editor'] }), ADA);
  const changes = '{"username":"countess","emailVerified":true,"roles":["editor"]}';
  t.strictSame(done, ['admit shop users.reset', 'now', `change ${changes} ${clock.now()}`, 'tell 7 null']);
  const fields = 'username,email_verified,roles';
  t.strictSame(events, [
    { event: 'user.changed_by_client', ...BY_SHOP, fields, disabled: false, tokenIds: [] },
  ]);
});

test('the right to name the mailbox is asked for before anything else, and for nothing else', async (t) => {
  const refusing = aService({ away: 'admit' });
  for (const changes of [
    { email: 'ada@example.com' },
    { email: '', roles: ['Editor'] },
    { emailVerified: true },
  ])
    for (const id of [7, 8]) await t.rejects(refusing.change(changes, id), { code: 'unavailable' });
  t.strictSame(new Set(refusing.done), new Set(['admit shop users.reset']));
  const { change } = aService({ away: 'admit' });
  t.equal(await change({ name: 'Ada', emailVerified: false, externalId: null }), ADA);
});

test('disabling ends the tokens, and reports those that were live', async (t) => {
  const account = { ...ADA, disabled: true };
  const { done, events, change } = aService({ account, status: 'disabled', ended: ENDED, before: 13 });
  t.equal(await change({ disabled: true }), account);
  t.strictSame(done.slice(2), ['end 7 13', 'tell 7 disabled']);
  t.match(events, [{ fields: 'disabled', disabled: true, tokenIds: [12] }]);
});

test('a repeat finishes what an earlier try could not, and is no second event', async (t) => {
  const repeat = aService({ isChanged: false, before: 13 });
  await repeat.change({ disabled: true });
  t.strictSame(repeat.done.slice(2), ['end 7 13', 'tell 7 null']);
  t.strictSame(repeat.events, []);
  const again = aService();
  await t.rejects(again.remove(8), { code: 'user_unknown' });
  t.equal(again.done.at(-1), 'end 8 0');
});

test('fields that are refused are named together, and nothing is written', async (t) => {
  const { done, change } = aService();
  await t.rejects(change({ username: 'admin', roles: ['Editor'], locale: 'en_US' }), {
    code: 'validation_failed',
    errors: [{ path: '/username' }, { path: '/roles' }, { path: '/locale' }],
  });
  await t.rejects(change({}), {
    code: 'validation_failed',
    errors: [{ path: '', code: 'required', message: 'must have a field that changes' }],
  });
  t.strictSame(done, []);
});

test('while the fast store is down, nothing is changed or deleted', async (t) => {
  const { done, change, remove } = aService({ away: 'now' });
  await t.rejects(change({ disabled: true }), { code: 'unavailable' });
  await t.rejects(remove(), { code: 'unavailable' });
  t.strictSame(done, ['now', 'now']);
});

test('a deletion ends the tokens and reserves the names', async (t) => {
  const { clock, done, events, remove } = aService({ status: 'deleted', ended: ENDED, before: 13 });
  await remove();
  t.strictSame(done, ['now', `delete ${clock.now()} 1000`, 'end 7 13', 'tell 7 deleted']);
  t.strictSame(events, [{ event: 'user.deleted_by_client', ...BY_SHOP, tokenIds: [12] }]);
});

test('all tokens end, and those that were live are counted and reported', async (t) => {
  const { clock, done, events, endTokens } = aService({ ended: ENDED, before: 13 });
  t.equal(await endTokens(), 1);
  t.strictSame(done, [`revoke 7 ${clock.now()} admin null`, 'end 7 13']);
  t.strictSame(events, [{ event: 'user.logged_out_by_client', ...BY_SHOP, tokenIds: [12] }]);
  const repeat = aService();
  t.equal(await repeat.endTokens(), 0);
  t.equal(repeat.done.at(-1), 'end 7 0', 'an earlier try may have failed here');
  t.strictSame(repeat.events, []);
});

test('a reset token is shown once: the record gets its hash', async (t) => {
  const { done, events, reset } = aService();
  const { resetToken, expiresAt } = await reset();
  t.match(resetToken, /^lkr_/);
  t.equal(expiresAt, 99);
  t.strictSame(done, [`reset ${hashOneTimeToken(resetToken).toString('hex')}`]);
  t.strictSame(events, [{ event: 'user.reset_by_client', ...BY_SHOP }]);
});
