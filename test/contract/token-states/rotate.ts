import type { TokenStateStore } from '../../../src/domain/tokens/token-state-store.ts';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import type { SessionState } from '../../../src/domain/tokens/session-state.ts';
import { aSession, aUser } from '../../support/token.ts';
import type { Contract } from '../token-states.ts';

const WINDOW = 10_000_000;
const HOUR = 3_600_000_000;
const key = { userId: 7, tokenId: 11 };
const user = aUser({ roles: ['editor', 'billing:read'] });
const { createdAt } = aSession(initialState(1, ''));

/** The latest refresh token of a session whose last pair went to `home`. */
function presenting(generation: number, overrides: object = {}) {
  return { generation, elapsed: 0, window: WINDOW, caller: 'home', ...overrides };
}

/** Puts a session whose latest pair was issued this many microseconds ago, an hour after the previous one. */
async function putSession(
  tokenStates: TokenStateStore,
  { age = HOUR, ...overrides }: Partial<SessionState> & { age?: number } = {},
): Promise<SessionState> {
  const now = await tokenStates.preparePut(7);
  const latest = now - age;
  const state = {
    latest,
    parent: latest - HOUR,
    first: latest,
    confirmed: false,
    caller: 'home',
    ...overrides,
  };
  if (!(await tokenStates.put(aSession(state), user, now))) throw new Error('the state was not taken');
  return state;
}

export function rotateContract(contract: Contract): void {
  contract('issues the next pair for the latest token and keeps the state', async (t, { tokenStates }) => {
    const { latest } = await putSession(tokenStates, { confirmed: true });
    const before = await tokenStates.now();
    const answer = await tokenStates.rotate(key, presenting(latest, { caller: 'elsewhere' }));
    const after = await tokenStates.now();
    if (answer.outcome !== 'issued') throw new Error(answer.outcome);
    const issued = answer.state.latest;
    t.ok(before <= issued && issued <= after, 'the generation is the time of issue');
    const state = { latest: issued, parent: latest, first: issued, confirmed: false, caller: 'elsewhere' };
    t.strictSame(answer, { outcome: 'issued', row: 'current', state, user, createdAt, now: issued });

    const again = await tokenStates.rotate(key, presenting(issued));
    t.match(again, { outcome: 'issued', row: 'current', state: { parent: issued } }, 'the state was kept');
  });

  contract('answers a retry of the same client with the same pair', async (t, { tokenStates }) => {
    const state = await putSession(tokenStates, { age: 1_000_000, confirmed: true });
    const answer = await tokenStates.rotate(key, presenting(state.parent));
    const { now, ...rest } = answer as { now: number };
    t.strictSame(rest, { outcome: 'repeated', state, user, createdAt });
    t.ok(Number.isSafeInteger(now) && now >= state.latest);
  });

  contract('delays a retry of another client until the window ends', async (t, { tokenStates }) => {
    const { latest, parent } = await putSession(tokenStates, { age: 1_000_000 });
    for (const caller of ['elsewhere', '']) {
      const answer = await tokenStates.rotate(key, presenting(parent, { caller }));
      if (answer.outcome !== 'held') throw new Error(answer.outcome);
      const { now, ...rest } = answer;
      t.strictSame(rest, { outcome: 'held', retryAfter: latest + WINDOW - now, user, createdAt });
    }
    t.match(await tokenStates.rotate(key, presenting(parent)), { outcome: 'repeated' }, 'nothing changed');
  });

  contract('the state is unchanged', async (t, { tokenStates }) => {
    const { parent } = await putSession(tokenStates, { age: 1_000, caller: '' });
    t.match(await tokenStates.rotate(key, presenting(parent, { caller: '' })), { outcome: 'held' });
  });

  contract('accepts a token newer than its state', async (t, { tokenStates }) => {
    const { latest } = await putSession(tokenStates);
    const answer = await tokenStates.rotate(key, presenting(latest + 1_001));
    t.match(answer, { outcome: 'issued', row: 'ahead', state: { parent: latest + 1_001 } });
    t.match(await tokenStates.rotate(key, presenting(latest, { window: 0 })), { outcome: 'reused' });
  });

  contract('accepts a token issued in a state that was lost', async (t, { tokenStates }) => {
    const latest = (await tokenStates.now()) - HOUR;
    const first = latest - 500;
    await putSession(tokenStates, { latest, first, confirmed: true });
    const answer = await tokenStates.rotate(key, presenting(first - 1));
    t.match(answer, { outcome: 'issued', row: 'gap', state: { parent: first - 1, first, confirmed: false } });
  });

  contract('accepts the parent again while the latest pair is unconfirmed', async (t, { tokenStates }) => {
    const { parent, first } = await putSession(tokenStates);
    const answer = await tokenStates.rotate(key, presenting(parent));
    t.match(answer, { outcome: 'issued', row: 'unconfirmed', state: { parent, first } });
    if (answer.outcome !== 'issued') throw new Error(answer.outcome);
    t.ok(answer.state.latest > first, 'the first generation since the parent stays');
  });

  contract('refuses a request that was inside for too long, without a change', async (t, { tokenStates }) => {
    const { latest } = await putSession(tokenStates);
    const stale = await tokenStates.rotate(key, presenting(latest, { elapsed: 5_000_001 }));
    t.match(stale, { outcome: 'refused', reason: 'stale', user });
    // The model is exact to the microsecond; here the round trip to the store counts too.
    t.match(await tokenStates.rotate(key, presenting(latest, { elapsed: 4_000_000 })), { row: 'current' });
  });

  contract('refuses to issue while the state is a minute ahead of its clock', async (t, { tokenStates }) => {
    const { latest } = await putSession(tokenStates, { age: -65_000_000 });
    t.match(await tokenStates.rotate(key, presenting(latest)), { outcome: 'refused', reason: 'clock' });
    t.match(await tokenStates.rotate(key, presenting(latest + 5)), { outcome: 'refused', reason: 'clock' });
    t.match(await tokenStates.checkAccess(key, latest), { outcome: 'good' }, 'the state is unchanged');
    t.match(await tokenStates.checkAccess(key, latest - 1), { outcome: 'superseded' });
  });

  contract('a returned superseded token ends its session with a tombstone', async (t, { tokenStates }) => {
    const { latest, parent } = await putSession(tokenStates, { confirmed: true });
    const { now, ...rest } = (await tokenStates.rotate(key, presenting(parent))) as { now: number };
    t.strictSame(rest, { outcome: 'reused', user, createdAt });
    t.ok(now > latest);
    const late = await tokenStates.put(
      aSession(initialState(latest, 'home')),
      user,
      await tokenStates.preparePut(7),
    );
    t.equal(late, false, 'no rebuild brings it back');
  });

  contract('reports a theft to every caller until its record is revoked', async (t, { tokenStates }) => {
    const { latest, parent } = await putSession(tokenStates, { confirmed: true });
    await tokenStates.rotate(key, presenting(parent));
    const expectOutcome = async (outcome: string) => {
      t.strictSame(await tokenStates.rotate(key, presenting(latest)), { outcome });
      t.strictSame(await tokenStates.rotate(key, presenting(parent)), { outcome });
      t.strictSame(await tokenStates.checkAccess(key, latest), { outcome });
    };
    await expectOutcome('reused');
    await tokenStates.revokeAll([key], 'reused');
    await expectOutcome('reused');
    await tokenStates.noteEnded(key);
    await expectOutcome('reused');
    await tokenStates.revoke(key);
    await expectOutcome('revoked');
    await tokenStates.revokeAll([key], 'reused');
    await tokenStates.revokeAll([key]);
    await expectOutcome('revoked');
  });

  contract('gives twenty concurrent refreshes the same pair', async (t, { tokenStates }) => {
    for (const window of [WINDOW, 0]) {
      const tokenId = 30 + window;
      const now = await tokenStates.preparePut(7);
      await tokenStates.put(aSession(initialState(now - HOUR, 'home'), { id: tokenId }), user, now);
      const answers = await Promise.all(
        Array.from({ length: 20 }, () =>
          tokenStates.rotate({ userId: 7, tokenId }, presenting(now - HOUR, { window, elapsed: 4_000_000 })),
        ),
      );
      const generations = answers.map((answer) => 'state' in answer && answer.state.latest);
      t.equal(new Set(generations).size, 1);
      t.ok(Number.isSafeInteger(generations[0]));
      t.equal(answers.filter(({ outcome }) => outcome === 'issued').length, 1);
      t.equal(answers.filter(({ outcome }) => outcome === 'repeated').length, 19);
    }
  });

  contract('keeps generations exact up to the largest safe integer', async (t, { tokenStates }) => {
    const latest = Number.MAX_SAFE_INTEGER;
    const { parent } = await putSession(tokenStates, { latest, parent: latest - 4, first: latest - 2 });
    const refused = { outcome: 'refused', reason: 'clock' };
    t.match(await tokenStates.rotate(key, presenting(latest)), refused);
    t.match(await tokenStates.rotate(key, presenting(parent)), refused, 'the parent');
    t.match(await tokenStates.rotate(key, presenting(parent + 1)), refused, 'between parent and first');
    t.match(await tokenStates.checkAccess(key, latest - 1), { outcome: 'superseded' });
    t.match(await tokenStates.checkAccess(key, latest), { outcome: 'good' });
    t.match(await tokenStates.rotate(key, presenting(parent - 1)), { outcome: 'reused' });

    const odd = await tokenStates.preparePut(7);
    const state = { latest: odd, parent: odd - 3, first: odd - 1, confirmed: true, caller: 'home' };
    await tokenStates.put(aSession(state, { id: 13 }), user, odd);
    t.match(await tokenStates.rotate({ userId: 7, tokenId: 13 }, presenting(odd - 3)), {
      outcome: 'repeated',
      state,
    });
  });
}
