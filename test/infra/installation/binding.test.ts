import { test } from 'tap';
import { judge, NEWCOMER, type Memory, type Recorded } from '../../../src/infra/installation/binding.ts';

/** What a master holds: `A m` is the id A with a mark that the database knows, `A ?` with one that it does not. */
function held(text: string) {
  return text.split(', ').map((each) => {
    const [id = '', mark = ''] = each.split(' ');
    return each === '-' ? null : { id, mark };
  });
}

const newcomer = NEWCOMER;
/** PostgreSQL has just come back, or somebody has served until now. */
const unsteady: Memory = { ...NEWCOMER, isSteady: false };
const servedWith = (bound: string, ...former: string[]): Memory => ({
  ...NEWCOMER,
  bound,
  former: new Set(former),
});

/** Milliseconds. */
const [FRESH, QUIET] = [5000, 30_001];

type Case = [
  name: string,
  masters: string,
  recorded: [id: string | null, quietFor: number | null],
  Memory,
  string,
];

const CASES: Case[] = [
  ['the usual start', 'A m', ['A', FRESH], newcomer, 'admit'],
  ['the usual second', 'A m', ['A', FRESH], servedWith('A'), 'admit'],
  ['the first replica, on the Redis of 1.0.0 or an empty one', '-', [null, null], newcomer, 'claim'],
  ['a cluster that has got a master', 'A m, -', ['A', FRESH], newcomer, 'admit'],
  ['another replica has claimed an emptied Redis', 'B m', ['B', FRESH], servedWith('A'), 'admit'],

  ['another database: the id differs', 'X ?', ['A', QUIET], newcomer, 'REDIS_URL'],
  ['another database: a first start', 'X ?', [null, null], newcomer, 'REDIS_URL'],
  ['a copy, or an old backup: the id is the same', 'A ?', ['A', QUIET], newcomer, 'REDIS_URL'],
  ['the original is restored while a replica serves', 'A ?', ['A', FRESH], servedWith('A'), 'REDIS_URL'],
  ['one master of a cluster is foreign', 'A m, X ?', ['A', FRESH], servedWith('A'), 'REDIS_URL'],
  ['a garbage mark', ' ', ['A', FRESH], servedWith('A'), 'REDIS_URL'],

  ['emptied while it serves', '-', ['A', FRESH], servedWith('A'), 'claim'],
  ['an old Redis of ours comes back while it serves', 'Z m', ['A', FRESH], servedWith('A'), 'claim'],
  ['a claim that died between the masters', 'B m, -', ['A', FRESH], servedWith('A'), 'claim'],
  ['a failover of PostgreSQL lost a claim', 'B m', ['A', FRESH], servedWith('B', 'A'), 'claim'],
  ['a failover of PostgreSQL lost the first claim', 'B m', [null, null], servedWith('B'), 'claim'],
  ['the others have moved', 'A m', ['B', FRESH], servedWith('A'), 'REDIS_URL'],
  ['the others have moved, and have ended', 'A m', ['B', QUIET], servedWith('A'), 'claim'],
  ['emptied twice: the one that claimed first claims again', '-', ['B', FRESH], servedWith('A'), 'REDIS_URL'],
  ['the same, and that one has died', '-', ['B', QUIET], servedWith('A'), 'claim'],

  ['a wrong REDIS_URL or prefix beside a replica that serves', '-', ['A', FRESH], newcomer, 'REDIS_URL'],
  ['the old Redis, beside a replica that serves with another', 'Z m', ['A', FRESH], newcomer, 'REDIS_URL'],
  ['an emptied or moved Redis, and nobody serves', '-', ['A', QUIET], newcomer, 'claim'],
  ['nobody could show it during an outage of PostgreSQL', '-', ['A', QUIET], unsteady, 'REDIS_URL'],
  ['a time that is ahead, and nobody serves', '-', ['A', -3_600_000], newcomer, 'claim'],
  ['a time that is ahead, and somebody may', '-', ['A', -3_600_000], unsteady, 'REDIS_URL'],
  ['a first start after an outage', '-', [null, null], unsteady, 'claim'],
  ['an old Redis of ours, and nobody serves', 'Z m', ['A', QUIET], newcomer, 'claim'],
];

test('which Redis a replica serves with', (t) => {
  for (const [name, masters, [id, quietFor], memory, expected] of CASES) {
    const recorded: Recorded = { id, quietFor, newest: 'n', before: 'm', known: new Set(['m', 'n']) };
    const verdict = judge(held(masters), recorded, memory);
    t.equal('objection' in verdict ? verdict.objection.about : verdict.is, expected, name);
  }
  t.end();
});

test('the objection says what to do', (t) => {
  const recorded: Recorded = { id: 'A', quietFor: FRESH, newest: 'n', before: 'm', known: new Set('m') };
  const told = (masters: string, memory = newcomer, id = 'A') => {
    const verdict = judge(held(masters), { ...recorded, id }, memory);
    return 'objection' in verdict ? { is: verdict.is, ...verdict.objection } : verdict;
  };
  t.match(told('A ?'), {
    is: 'refuse',
    problem: /does not know.+backup/,
    action: /latchkey recover.+REDIS_PREFIX/,
  });
  t.match(told('A m', servedWith('A'), 'B'), { is: 'wait', problem: /moved/, action: /restart.+stop them/ });
  t.match(told('-'), { is: 'wait', problem: /another Redis/, action: /Move Redis/ });
  t.end();
});
