import { test } from 'tap';
import type { KeyInUse } from '../../../src/domain/access-tokens/ports.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import { describeObjection, joinStandings, type Objection } from '../../../src/domain/standing.ts';
import { makeAgreement } from '../../../src/infra/installation/agreement.ts';
import {
  differencesOf,
  objectionTo,
  objectionToMissing,
  type Fact,
  type Settings,
} from '../../../src/infra/installation/facts.ts';
import { until } from '../../support/until.ts';

const SETTINGS: Settings = {
  ISSUER: 'https://auth.example.com',
  AUDIENCE: 'latchkey',
  ACCESS_TOKEN_TTL: 900,
  REFRESH_TOKEN_TTL: 2_592_000,
  SESSION_MAX_AGE: 0,
  SESSION_CACHE_TTL: 3600,
  REFRESH_RETRY_WINDOW: 10,
  LLT_MAX_AGE: 0,
  KEY_PUBLISH_LEAD: 600,
};

/** A record whose answers the test decides; what was done, in order. */
function aWorld({
  isAlone = false,
  isSeeded = null,
  settings = {},
}: { isAlone?: boolean; isSeeded?: boolean | null; settings?: Partial<Settings> } = {}) {
  const facts = new Map<string, Fact>();
  const world = {
    facts,
    missing: [] as KeyInUse[],
    isAway: false,
    isSeeded,
    steps: [] as string[],
    lines: [] as string[],
    /** What another replica records just before this one does. */
    first: {} as Readonly<Record<string, string>>,
    /** With which keys another replica begins to sign just before this one does. */
    firstKeys: [] as KeyInUse[],
  };
  const put = (values: Readonly<Record<string, string>>) => {
    for (const [name, value] of Object.entries(values))
      if (!facts.has(name)) facts.set(name, { value, age: 0 });
  };
  const step = <Result>(name: string, act: () => Result) => {
    if (world.isAway) return Promise.reject(new AuthError('unavailable'));
    if (name !== '') world.steps.push(name);
    return Promise.resolve(act());
  };
  const log = (_fields: object, text: string) => void world.lines.push(text);
  const agreement = makeAgreement({
    settings: { ...SETTINGS, ...settings },
    record: {
      read: () => step('', () => new Map(facts)),
      add: (values) =>
        step('add', () => {
          put(world.first);
          put(values);
        }),
      hold: (values) =>
        step('hold', () => {
          put(values);
        }),
      replace: (name, _from, to) =>
        step('replace', () => {
          facts.set(name, { value: to, age: 0 });
          return true;
        }),
      retire: () => step('retire', () => true),
      isServed: () => step('', () => false),
    },
    keys: {
      missing: () => step('', () => world.missing),
      register: () => step('register', () => world.firstKeys),
    },
    forbidden:
      isSeeded === null
        ? null
        : {
            mark: { isSet: () => step('', () => world.isSeeded === true) },
            end: ({ about }) => void world.steps.push(`end ${about}`),
          },
    isAlone,
    logger: { error: log, warn: log, info: (text) => void world.lines.push(text) },
  });
  return { ...agreement, world, about: () => agreement.standing.objection()?.about ?? null };
}

test('the first replica records its settings, and registers its keys before it serves', async (t) => {
  const { open, about, world } = aWorld();
  t.equal(about(), 'DATABASE_URL', 'not before it has looked');
  await open();
  t.equal(about(), null);
  t.strictSame(world.steps, ['add', 'hold', 'register']);
  t.equal(world.facts.get('ISSUER')?.value, 'https://auth.example.com');
});

test('a replica that differs records and registers nothing', async (t) => {
  for (const name of ['ISSUER', 'AUDIENCE'] as const) {
    const { open, close, about, world } = aWorld();
    world.facts.set(name, { value: 'another', age: 0 });
    await open();
    t.equal(about(), name);
    await close();
    t.strictSame(world.steps, []);
  }
  const { open, close, about, world } = aWorld();
  world.missing.push({ kid: 'theirs', kind: 'refresh' });
  await open();
  t.equal(about(), 'REFRESH_TOKEN_SECRET');
  t.strictSame(world.steps, []);
  world.missing.pop();
  await until(() => about() === null);
  await close();
});

test('a replica in production that finds the mark of a seed at its first contact ends, and writes nothing', async (t) => {
  const { open, close, about, world } = aWorld({ isSeeded: true });
  world.isAway = true;
  await open();
  t.strictSame(world.steps, [], 'not while the database is away');
  world.isAway = false;
  await until(() => about() === 'DATABASE_URL' && world.steps.length > 0);
  await close();
  t.equal(world.steps[0], 'end DATABASE_URL');
  t.notOk(world.steps.some((step) => !step.startsWith('end ')));

  const unmarked = aWorld({ isSeeded: false });
  await unmarked.open();
  unmarked.world.isSeeded = true;
  await unmarked.look();
  t.equal(unmarked.about(), null, 'one that serves goes on');
});

test('of two replicas that record at once, the second sees the first', async (t) => {
  const { open, close, about, world } = aWorld();
  world.first = { ISSUER: 'https://first.example' };
  await open();
  t.equal(about(), 'ISSUER');
  await close();
  t.strictSame(world.steps, ['add']);
  const later = aWorld();
  later.world.firstKeys.push({ kid: 'theirs', kind: 'signing' });
  await later.open();
  t.equal(later.about(), 'SIGNING_KEYS_DIR');
  later.world.firstKeys.pop();
  await until(() => later.about() === null);
});

test('an outage at the first look is no agreement, and afterwards it changes nothing', async (t) => {
  const { open, look, about, world } = aWorld();
  world.isAway = true;
  await open();
  t.equal(about(), 'DATABASE_URL');
  world.isAway = false;
  await until(() => about() === null);
  world.isAway = true;
  await t.rejects(look(), { code: 'unavailable' });
  t.equal(about(), null);
  world.isAway = false;
  world.missing.push({ kid: 'new', kind: 'refresh' });
  await look();
  t.equal(about(), null, 'a key that others have first is no disagreement of a replica that serves');
  world.facts.set('ISSUER', { value: 'https://other.example', age: 0 });
  await look();
  t.equal(about(), 'ISSUER');
});

test('a replica whose database is embedded has nobody to agree with', async (t) => {
  const { open, about, world } = aWorld({ isAlone: true });
  world.facts.set('ISSUER', { value: 'http://localhost:3001', age: 0 });
  await open();
  t.equal(about(), null);
  t.strictSame(world.steps, ['register']);
});

test('another lifetime is logged once, counted, and no objection', async (t) => {
  const { open, look, about, lifetimes, world } = aWorld({ settings: { ACCESS_TOKEN_TTL: 600 } });
  world.facts.set('ACCESS_TOKEN_TTL', { value: '900', age: 0 });
  await open();
  await look();
  t.equal(about(), null);
  const found = lifetimes().filter(({ differs }) => differs);
  t.strictSame(found, [{ setting: 'ACCESS_TOKEN_TTL', differs: true }]);
  t.match(world.lines, [/^ACCESS_TOKEN_TTL: it is 600 here and 900 in the installation: /]);
  world.facts.set('ACCESS_TOKEN_TTL', { value: '600', age: 0 });
  await look();
  t.notOk(lifetimes().some(({ differs }) => differs));
  t.match(world.lines, [String, /again$/]);
});

test('a lifetime is held once a minute, and taken over after 70 s, or if its time is ahead', async (t) => {
  const { open, look, world } = aWorld();
  await open();
  const heldAt = async (value: string, age: number) => {
    world.steps.length = 0;
    world.facts.set('SESSION_MAX_AGE', { value, age });
    await look();
    return world.steps.includes('hold');
  };
  t.strictSame(
    [
      await heldAt('0', 60_000),
      await heldAt('0', 60_001),
      await heldAt('9', 70_000),
      await heldAt('9', 70_001),
      await heldAt('9', -10_000),
      await heldAt('9', -10_001),
    ],
    [false, true, false, true, false, true],
  );
});

test('an objection names setting, values and remedy', (t) => {
  const facts = new Map([['ISSUER', { value: 'https://auth.example.com/', age: 0 }]]);
  const objection = objectionTo(differencesOf(SETTINGS, facts));
  t.match(
    objection && describeObjection(objection),
    /^ISSUER: .* \(they differ by the slash at the end\): .*settings accept/,
  );
  t.equal(objectionTo(differencesOf(SETTINGS, new Map())), null, 'nothing is recorded');
  t.match(objectionToMissing([{ kid: 'k', kind: 'signing' }]), {
    about: 'SIGNING_KEYS_DIR',
    action: /--retire k`/,
  });
  t.equal(objectionToMissing([]), null);
  t.end();
});

test('the first objection counts', (t) => {
  const standing = (objection: Objection | null) => ({ objection: () => objection });
  const [a, b] = ['a', 'b'].map((about) => ({ about, problem: '', action: '' })) as [Objection, Objection];
  t.equal(joinStandings(standing(null), standing(a), standing(b)).objection(), a);
  t.equal(joinStandings(standing(null)).objection(), null);
  t.end();
});
