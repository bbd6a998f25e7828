import { test } from 'tap';
import { judge, type FeedSpan, type Published } from '../../../src/domain/enforcement/judge.ts';
import type { StalePolicy } from '../../../src/domain/enforcement/ports.ts';

const MINUTE = 60_000;
/** The publication, long after 1970. */
const AT = 1_000 * MINUTE;
const SPAN: FeedSpan = { epoch: 'e', from: 41, to: 43 };

interface Case {
  position: 'none' | 'before' | 'at' | 'end' | 'beyond' | 'elsewhere';
  policy: 'none' | StalePolicy;
  /** When it is judged, from the publication: before and after the policy's end, and that of expiry. */
  after: 0 | 89_000 | 91_000 | 971_000;
  seen: 'now' | 'long ago' | 'ahead';
  expires: boolean;
  published: boolean;
  span: boolean;
}

const CHOICES = {
  position: ['none', 'before', 'at', 'end', 'beyond', 'elsewhere'],
  policy: ['none', 'introspect', 'refuse', 'accept'],
  after: [0, 89_000, 91_000, 971_000],
  seen: ['now', 'long ago', 'ahead'],
  expires: [true, false],
  published: [true, false],
  span: [true, false],
} as const;

/** Every combination of the choices. */
function allCases(): Case[] {
  return Object.entries(CHOICES).reduce<Record<string, unknown>[]>(
    (cases, [name, values]) => cases.flatMap((each) => values.map((value) => ({ ...each, [name]: value }))),
    [{}],
  ) as unknown as Case[];
}

const POSITIONS = {
  none: null,
  before: { epoch: 'e', seq: 40 },
  at: { epoch: 'e', seq: 41 },
  end: { epoch: 'e', seq: 43 },
  beyond: { epoch: 'e', seq: 44 },
  elsewhere: { epoch: 'f', seq: 42 },
};

/** The contract's table, in its own words. */
function expectedOf({ position, policy, after, seen, expires, published, span }: Case) {
  const hasConfirmed = published && span && (position === 'at' || position === 'end');
  if (hasConfirmed) return { state: 'enforced', until: null, by: null };
  const isStrict = published && (policy === 'introspect' || policy === 'refuse');
  // 60 s without news and 30 s of margin; 905 s of an access token and 65 s.
  if (isStrict) {
    const state = after > 90_000 ? 'bounded' : 'pending';
    return { state, until: AT + 90_000, by: 'policy' };
  }
  const bound = published && expires ? { until: AT + 970_000, by: 'expired' } : { until: null, by: null };
  if (bound.until !== null && after > 970_000) return { state: 'bounded', ...bound };
  return { state: seen === 'long ago' ? 'unknown' : 'pending', ...bound };
}

test('a reader is judged as the contract says, in every combination', (t) => {
  const wrong = allCases().filter((each) => {
    const now = AT + each.after;
    const published: Published | null = each.published
      ? { at: AT, expiresAt: each.expires ? AT + 970_000 : null }
      : null;
    const reader = {
      position: POSITIONS[each.position],
      maxStaleness: each.policy === 'none' ? null : 60,
      whenStale: each.policy === 'none' ? null : each.policy,
      seenAt: { now: now - 45_000, 'long ago': now - 45_001, ahead: now + 60 * MINUTE }[each.seen],
    };
    const found = judge(reader, published, each.span ? SPAN : null, now);
    return JSON.stringify(found) !== JSON.stringify(expectedOf(each));
  });
  t.strictSame(wrong, []);
  t.end();
});

test('whichever of policy and expiry comes first bounds it, and only once its time has passed', (t) => {
  const reader = { position: null, maxStaleness: 60, whenStale: 'refuse' as const, seenAt: 0 };
  const early = { at: AT, expiresAt: AT + 80_000 };
  t.strictSame(judge(reader, early, null, AT + 80_000), {
    state: 'pending',
    until: AT + 80_000,
    by: 'expired',
  });
  t.match(judge(reader, early, null, AT + 80_001), { state: 'bounded', by: 'expired' });
  const same = { at: AT, expiresAt: AT + 90_000 };
  t.match(judge(reader, same, null, AT + 90_000), { state: 'pending', by: 'policy' });
  t.match(judge(reader, same, null, AT + 90_001), { state: 'bounded', by: 'policy' });
  t.end();
});
