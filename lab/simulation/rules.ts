import { checkAccess, initialState, rotate } from '../../src/domain/sessions/rotation.ts';

/** A client that refreshes. Times in seconds. */
export interface Presented {
  token: number;
  now: number;
  /** The request's elapsed time inside the service. */
  elapsed: number;
  caller: string;
}

export type Reply = { pair: number } | { retryAfter: number } | 'theft';

/** One session under a rule. Pairs are numbers, and it begins with one. */
export interface Session {
  first: number;
  refresh(presented: Presented): Reply;
  /** Whether the pair's access token is still the newest; the same strictness for every rule. */
  access(token: number): boolean;
}

export type Rule = (now: number) => Session;

const micros = (seconds: number) => Math.round(seconds * 1e6);

/** src/domain/sessions/rotation.ts itself. */
export function ours(window: number): Rule {
  return (now) => {
    const first = micros(now);
    let state = initialState(first, 'home');
    return {
      first,
      refresh({ token, now, elapsed, caller }) {
        const times = { now: micros(now), elapsed: micros(elapsed), window: micros(window) };
        const answer = rotate(state, { generation: token, caller, ...times });
        switch (answer.outcome) {
          case 'issued':
          case 'repeated':
            state = answer.state;
            return { pair: state.latest };
          case 'held':
            return { retryAfter: Math.max(1, answer.retryAfter / 1e6) };
          case 'refused':
            return { retryAfter: 1 };
          case 'reused':
            return 'theft';
        }
      },
      access(token) {
        const answer = checkAccess(state, token);
        if (answer.outcome === 'good') state = answer.state;
        return answer.outcome === 'good';
      },
    };
  };
}

/** One-time use. A grace above 0 returns the same pair for the previous token, to any client. */
export function oneTimeUse({ grace }: { grace: number }): Rule {
  return (now) => {
    let [current, previous, rotatedAt] = [1, 0, now];
    return {
      first: current,
      refresh({ token, now }) {
        if (token === current) {
          [current, previous, rotatedAt] = [current + 1, current, now];
          return { pair: current };
        }
        return grace > 0 && token === previous && now - rotatedAt <= grace ? { pair: current } : 'theft';
      },
      access: (token) => token === current,
    };
  };
}

/** Within the grace after its first use a token gets another pair, and both pairs stay valid. */
export function forkingGrace(grace: number): Rule {
  return () => {
    const usedAt = new Map<number, number>();
    let last = 1;
    return {
      first: last,
      refresh({ token, now }) {
        const before = usedAt.get(token);
        if (before !== undefined && now - before > grace) return 'theft';
        if (before === undefined) usedAt.set(token, now);
        return { pair: ++last };
      },
      access: (token) => !usedAt.has(token),
    };
  };
}

export const RULES: readonly { name: string; rule: Rule }[] = [
  { name: 'ours, window 10', rule: ours(10) },
  { name: 'ours, window 0', rule: ours(0) },
  { name: 'strict one-time use', rule: oneTimeUse({ grace: 0 }) },
  { name: '10 s grace, same pair', rule: oneTimeUse({ grace: 10 }) },
  { name: '30 s grace, same pair', rule: oneTimeUse({ grace: 30 }) },
  { name: '10 s grace, forks', rule: forkingGrace(10) },
];
