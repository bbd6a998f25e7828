import type { TokenStateStore } from '../../../src/domain/tokens/token-state-store.ts';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import type { SessionState } from '../../../src/domain/tokens/session-state.ts';
import { aSession, aUser } from '../../support/token.ts';
import { answerOf, CASES } from '../rotation-table.ts';
import type { Contract } from '../token-states.ts';

const WINDOW = 10_000_000;
const HOUR = 3_600_000_000;
const key = { userId: 7, tokenId: 11 };
const user = aUser({ roles: ['editor', 'billing:read'], emailVerified: true });
const { createdAt } = aSession(initialState(1, ''));

/** The latest refresh token of a session whose last pair went to `home`. */
function presenting(generation: number, overrides: object = {}) {
  return { generation, elapsed: 0, window: WINDOW, caller: 'home', ...overrides };
}

/** Puts a session whose latest pair was issued an hour ago, and the previous one an hour before. */
async function putSession(
  tokenStates: TokenStateStore,
  overrides: Partial<SessionState>,
): Promise<SessionState> {
  const now = await tokenStates.preparePut(7);
  const latest = now - HOUR;
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
  contract('answers every row of the table, and keeps the state', async (t, { tokenStates }) => {
    for (const [i, { title, outcome, at }] of CASES.entries()) {
      const id = 100 + i;
      const of = { userId: 7, tokenId: id };
      const before = await tokenStates.preparePut(7);
      const { state, presented } = at(before);
      t.ok(await tokenStates.put(aSession(state, { id }), user, before));
      const { now, ...answer } = (await tokenStates.rotate(of, presented)) as { now: number };
      const expected = answerOf(outcome, state, { ...presented, now });
      t.strictSame(answer, { ...expected, user, createdAt }, title);
      t.ok(before <= now && now <= (await tokenStates.now()), 'by the clock of the store');

      const kept = 'state' in expected ? expected.state : state;
      const use = await tokenStates.checkAccess(of, kept.latest);
      const good = { outcome: 'good', user, createdAt };
      const first = kept.confirmed ? good : { ...good, confirmed: { ...kept, confirmed: true } };
      t.strictSame(use, outcome === 'reused' ? { outcome } : first, `${title}, then`);
    }
  });

  contract('a returned superseded token ends its session with a tombstone', async (t, { tokenStates }) => {
    const { latest, parent } = await putSession(tokenStates, { confirmed: true });
    t.match(await tokenStates.rotate(key, presenting(parent)), { outcome: 'reused' });
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
