import type { SessionStateStore } from '../../../src/domain/sessions/ports.ts';
import { initialState, type SessionState } from '../../../src/domain/sessions/rotation.ts';
import { aSession, aUser } from '../../support/token.ts';
import type { Contract } from '../session-state.ts';

const WINDOW = 10_000_000;
const HOUR = 3_600_000_000;
const key = { userId: 7, tokenId: 11 };
const user = aUser();
const { createdAt } = aSession(initialState(1, ''));

/** The latest refresh token of a session whose last pair went to `home`. */
function presenting(generation: number, overrides: object = {}) {
  return { generation, elapsed: 0, window: WINDOW, client: 'home', ...overrides };
}

/** Puts a session whose latest pair was issued so many microseconds ago, an hour after the one before. */
async function putSession(
  states: SessionStateStore,
  { age = HOUR, ...overrides }: Partial<SessionState> & { age?: number } = {},
): Promise<SessionState> {
  const now = await states.now();
  const latest = now - age;
  const state = {
    ...{ latest, parent: latest - HOUR, first: latest, confirmed: false, client: 'home' },
    ...overrides,
  };
  if (!(await states.put(aSession(state), user, now))) throw new Error('the state was not taken');
  return state;
}

export function rotateContract(contract: Contract): void {
  contract('issues the next pair for the latest token and keeps it', async (t, { states }) => {
    const { latest } = await putSession(states, { confirmed: true });
    const before = await states.now();
    const answer = await states.rotate(key, presenting(latest, { client: 'elsewhere' }));
    const after = await states.now();
    if (answer.outcome !== 'issued') throw new Error(answer.outcome);
    const issued = answer.state.latest;
    t.ok(before <= issued && issued <= after, 'the generation is the time of issue');
    const state = { latest: issued, parent: latest, first: issued, confirmed: false, client: 'elsewhere' };
    t.strictSame(answer, { outcome: 'issued', row: 'current', state, user, createdAt, now: issued });

    const again = await states.rotate(key, presenting(issued));
    t.match(again, { outcome: 'issued', row: 'current', state: { parent: issued } }, 'the state was kept');
  });

  contract('answers a retry of the same client with the same pair', async (t, { states }) => {
    const state = await putSession(states, { age: 1_000_000, confirmed: true });
    const answer = await states.rotate(key, presenting(state.parent));
    const { now, ...rest } = answer as { now: number };
    t.strictSame(rest, { outcome: 'repeated', state, user, createdAt });
    t.ok(Number.isSafeInteger(now) && now >= state.latest);
  });

  contract('holds a retry of another client for the rest of the window', async (t, { states }) => {
    const { latest, parent } = await putSession(states, { age: 1_000_000 });
    for (const client of ['elsewhere', '']) {
      const answer = await states.rotate(key, presenting(parent, { client }));
      if (answer.outcome !== 'held') throw new Error(answer.outcome);
      const { now, ...rest } = answer;
      t.strictSame(rest, { outcome: 'held', retryAfter: latest + WINDOW - now, user, createdAt });
    }
    t.match(await states.rotate(key, presenting(parent)), { outcome: 'repeated' }, 'nothing changed');
  });

  contract('never takes an unknown address for the same client', async (t, { states }) => {
    const { parent } = await putSession(states, { age: 1_000, client: '' });
    t.match(await states.rotate(key, presenting(parent, { client: '' })), { outcome: 'held' });
  });

  contract('takes a token newer than its state', async (t, { states }) => {
    const { latest } = await putSession(states);
    const answer = await states.rotate(key, presenting(latest + 1_001));
    t.match(answer, { outcome: 'issued', row: 'ahead', state: { parent: latest + 1_001 } });
    t.match(await states.rotate(key, presenting(latest, { window: 0 })), { outcome: 'reused' });
  });

  contract('takes a token issued in a state that was lost', async (t, { states }) => {
    const latest = (await states.now()) - HOUR;
    const first = latest - 500;
    await putSession(states, { latest, first, confirmed: true });
    const answer = await states.rotate(key, presenting(first - 1));
    t.match(answer, { outcome: 'issued', row: 'gap', state: { parent: first - 1, first, confirmed: false } });
  });

  contract('takes the parent again while the latest pair is unconfirmed', async (t, { states }) => {
    const { parent, first } = await putSession(states);
    const answer = await states.rotate(key, presenting(parent));
    t.match(answer, { outcome: 'issued', row: 'unconfirmed', state: { parent, first } });
    if (answer.outcome !== 'issued') throw new Error(answer.outcome);
    t.ok(answer.state.latest > first, 'the first generation since the parent stays');
  });

  contract('refuses what was inside for too long, and changes nothing', async (t, { states }) => {
    const { latest } = await putSession(states);
    const stale = await states.rotate(key, presenting(latest, { elapsed: 5_000_001 }));
    t.match(stale, { outcome: 'refused', reason: 'stale', user });
    // To the microsecond in the model; here the way to the store counts as well.
    t.match(await states.rotate(key, presenting(latest, { elapsed: 4_000_000 })), { row: 'current' });
  });

  contract('refuses to issue while the state is a minute ahead of its clock', async (t, { states }) => {
    const { latest } = await putSession(states, { age: -65_000_000 });
    t.match(await states.rotate(key, presenting(latest)), { outcome: 'refused', reason: 'clock' });
    t.match(await states.rotate(key, presenting(latest + 5)), { outcome: 'refused', reason: 'clock' });
    t.match(await states.checkAccess(key, latest), { outcome: 'good' }, 'nothing changed');
    t.match(await states.checkAccess(key, latest - 1), { outcome: 'superseded' });
  });

  contract('buries a session whose superseded token came back', async (t, { states }) => {
    const { latest, parent } = await putSession(states, { confirmed: true });
    const { now, ...rest } = (await states.rotate(key, presenting(parent))) as { now: number };
    t.strictSame(rest, { outcome: 'reused', user, createdAt });
    t.ok(now > latest);
    const late = await states.put(aSession(initialState(latest, 'home')), user, await states.now());
    t.equal(late, false, 'no rebuild brings it back');
  });

  contract('tells everybody of a theft until the record has been revoked', async (t, { states }) => {
    const { latest, parent } = await putSession(states, { confirmed: true });
    await states.rotate(key, presenting(parent));
    const hears = async (outcome: string) => {
      t.strictSame(await states.rotate(key, presenting(latest)), { outcome });
      t.strictSame(await states.rotate(key, presenting(parent)), { outcome });
      t.strictSame(await states.checkAccess(key, latest), { outcome });
    };
    await hears('reused');
    await states.revokeAll([key], 'reused');
    await hears('reused');
    await states.revoke(key);
    await hears('revoked');
    await states.revokeAll([key], 'reused');
    await states.revokeAll([key]);
    await hears('revoked');
  });

  contract('gives every one of twenty refreshes at once the same pair', async (t, { states }) => {
    for (const window of [WINDOW, 0]) {
      const tokenId = 30 + window;
      const now = await states.now();
      await states.put(aSession(initialState(now - HOUR, 'home'), { id: tokenId }), user, now);
      const answers = await Promise.all(
        Array.from({ length: 20 }, () =>
          states.rotate({ userId: 7, tokenId }, presenting(now - HOUR, { window, elapsed: 4_000_000 })),
        ),
      );
      const generations = answers.map((answer) => 'state' in answer && answer.state.latest);
      t.equal(new Set(generations).size, 1);
      t.ok(Number.isSafeInteger(generations[0]));
      t.equal(answers.filter(({ outcome }) => outcome === 'issued').length, 1);
      t.equal(answers.filter(({ outcome }) => outcome === 'repeated').length, 19);
    }
  });

  contract('keeps generations exact as far as integers are', async (t, { states }) => {
    const latest = Number.MAX_SAFE_INTEGER;
    const { parent } = await putSession(states, { latest, parent: latest - 4, first: latest - 2 });
    const refused = { outcome: 'refused', reason: 'clock' };
    t.match(await states.rotate(key, presenting(latest)), refused);
    t.match(await states.rotate(key, presenting(parent)), refused, 'the parent');
    t.match(await states.rotate(key, presenting(parent + 1)), refused, 'between parent and first');
    t.match(await states.checkAccess(key, latest - 1), { outcome: 'superseded' });
    t.match(await states.checkAccess(key, latest), { outcome: 'good' });
    t.match(await states.rotate(key, presenting(parent - 1)), { outcome: 'reused' });

    const odd = await states.now();
    const state = { latest: odd, parent: odd - 3, first: odd - 1, confirmed: true, client: 'home' };
    await states.put(aSession(state, { id: 13 }), user, odd);
    t.match(await states.rotate({ userId: 7, tokenId: 13 }, presenting(odd - 3)), {
      outcome: 'repeated',
      state,
    });
  });
}
