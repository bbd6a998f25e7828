import fc from 'fast-check';
import { test } from 'tap';
import { checkAccess, initialState, rotate } from '../../src/domain/sessions/rotation.ts';
import type { SessionState } from '../../src/domain/tokens/session-state.ts';
import { testScale } from '../support/environment.ts';

/**
 * Checks rotation.ts's promises to an owner in every order in which requests and answers may get lost, arrive late or
 * arrive twice. An owner keeps the newer of two pairs, and stores a pair before it uses it.
 */
type Step =
  /** A tab sends the refresh token that the owner holds. */
  | { do: 'send' }
  /** One of the requests in flight reaches the service; a proxy may send it once more. */
  | { do: 'arrive'; nth: number; again: boolean; caller: string }
  /** One of the answers in flight reaches the owner, or gets lost. */
  | { do: 'answer'; nth: number; lost: boolean }
  /** The owner uses its access token. */
  | { do: 'use' }
  | { do: 'pass'; micros: number }
  /** The store falls back to an earlier state. */
  | { do: 'lose'; nth: number };

const WINDOW = 10_000_000;
/**
 * The longest time for a request, and for a pair to reach the owner after its issue. The two add up: a request sent
 * just before the pair arrives still comes within the window after the issue. Without the second bound an owner can be
 * signed out: a retry at the window's end returns the same pair, the owner uses it, and another tab's retry arrives a
 * moment later, outside the window.
 */
const LONGEST_WAY = WINDOW / 2;
const nth = fc.nat(5);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('send' as const) }) },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('arrive' as const),
      nth,
      again: fc.boolean(),
      caller: fc.constantFrom('home', 'home', 'train', ''),
    }),
  },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('answer' as const), nth, lost: fc.boolean() }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('use' as const) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('pass' as const),
      micros: fc.constantFrom(1, 1_000, 400_000, 2_400_000, 4_999_900, 60_000_000),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('lose' as const), nth }) },
);

interface Message {
  generation: number;
  /** For an answer: when its pair was first issued. */
  sentAt: number;
}

interface Circumstances {
  window: number;
  /**
   * Whether requests may overlap. Not with the window off: that promise is for one request at a time. And not together
   * with lost state: if two requests overlap the loss, the first pair ends unseen, and the owner is signed out if the
   * answer with the second pair gets lost.
   */
  overlap: boolean;
  loses: boolean;
}

/** @returns whether the owner was signed out, and how many pairs it got. */
function live(steps: readonly Step[], { window, overlap, loses }: Circumstances) {
  let now = 1_795_000_000_000_000;
  let state: SessionState = initialState(now, 'home');
  let held = now;
  const past = [state];
  let requests: Message[] = [];
  const answers: Message[] = [];
  let pairs = 0;
  const isLate = ({ sentAt }: Message) => now - sentAt > LONGEST_WAY - steps.length;

  for (const current of steps) {
    now++;
    switch (current.do) {
      case 'send':
        if (!overlap && requests.length + answers.length > 0) break;
        requests.push({ generation: held, sentAt: now });
        break;
      case 'arrive': {
        const index = current.nth % Math.max(1, requests.length);
        const request = requests[index];
        if (!request) break;
        if (!overlap || !current.again) requests.splice(index, 1);
        const { generation } = request;
        const answer = rotate(state, { generation, now, elapsed: 0, window, caller: current.caller });
        if (answer.outcome === 'reused') return { signedOut: true, pairs };
        if (answer.outcome === 'issued') {
          state = answer.state;
          past.push(state);
        }
        if (answer.outcome === 'issued' || answer.outcome === 'repeated')
          answers.push({ generation: answer.state.latest, sentAt: answer.state.latest });
        break;
      }
      case 'answer': {
        const [answer] = answers.splice(current.nth % Math.max(1, answers.length), 1);
        if (!answer || current.lost || isLate(answer)) break;
        pairs++;
        held = Math.max(held, answer.generation);
        break;
      }
      case 'use': {
        const answer = checkAccess(state, held);
        if (answer.outcome === 'good') state = answer.state;
        break;
      }
      case 'pass':
        now += current.micros;
        // Slower requests and answers count as lost.
        requests = requests.filter((request) => !isLate(request));
        break;
      case 'lose':
        if (loses) state = past[current.nth % past.length] ?? state;
        break;
    }
  }
  return { signedOut: false, pairs };
}

for (const [name, options] of [
  ['overlap, retries, lost answers and new addresses', { window: WINDOW, overlap: true, loses: false }],
  ['lost state, lost answers and retries', { window: WINDOW, overlap: false, loses: true }],
  ['lost answers with the window off', { window: 0, overlap: false, loses: false }],
  ['lost answers and lost state with the window off', { window: 0, overlap: false, loses: true }],
] as const) {
  test(`${name} never signs an owner out`, (t) => {
    let pairs = 0;
    const numRuns = Math.ceil(20_000 * testScale);
    t.doesNotThrow(() => {
      fc.assert(
        fc.property(fc.array(step, { minLength: 5, maxLength: 40, size: 'max' }), (steps) => {
          const life = live(steps, options);
          pairs += life.pairs;
          return !life.signedOut;
        }),
        { numRuns },
      );
    });
    t.ok(pairs > numRuns / 4, `${numRuns} lives, ${pairs} pairs received`);
    t.end();
  });
}
