import type { RotationOutcome } from '../../src/domain/tokens/session-state.ts';
import type { Move, Refresh } from './properties.ts';
import type { Rule } from './rule.ts';
import type { Situation } from './situation.ts';
import { MICROS, type World } from './world.ts';

/** A refresh token reaches the state store, a microsecond after the last event. */
export function presentRefresh(
  s: Situation,
  world: World,
  rule: Rule,
  token: { generation: number; caller: string; arrived: number; by: Refresh['by'] },
): { after: Situation; refresh: Refresh; answer: RotationOutcome } {
  if (!s.session) throw new Error('the session is over');
  const { generation, caller, arrived, by } = token;
  const now = s.now + 1;
  const presented = { generation, caller, now, elapsed: now - arrived, window: world.window * MICROS };
  const answer = rule.rotate(s.session, presented);
  const after = { ...s, now };
  if (answer.outcome === 'reused') after.session = null;
  if (answer.outcome === 'issued') {
    after.session = answer.state;
    after.issue = { generation: answer.state.latest, token: generation, caller, age: 0 };
  }
  return { after, refresh: { by, presented, answer }, answer };
}

export function presentAccess(s: Situation, rule: Rule, generation: number, what: string): Move {
  if (!s.session) throw new Error('the session is over');
  const answer = rule.checkAccess(s.session, generation);
  const after = answer.outcome === 'good' ? { ...s, session: answer.state } : s;
  return { what: `${what}: ${answer.outcome}`, before: s, after, access: { generation, answer } };
}
