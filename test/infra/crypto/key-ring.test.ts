import { randomBytes } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import type { KeyRegistry } from '../../../src/domain/access-tokens/ports.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import { makeKeyRing } from '../../../src/infra/crypto/key-ring.ts';
import { generateSigningKey, parseSigningKey } from '../../../src/infra/crypto/keys.ts';
import { makeAnswering } from '../../../src/infra/installation/answering.ts';
import { makeKeyRegistry } from '../../../src/infra/postgres/key-registry.ts';
import { aClock } from '../../support/clock.ts';
import { testRecords } from '../../support/records.ts';
import { sql } from '../../support/sql.ts';
import { until } from '../../support/until.ts';

function aFolder(t: Test) {
  const directory = t.testdir({});
  return {
    directory,
    add(name: string, text = generateSigningKey()): string {
      writeFileSync(join(directory, name), text);
      return parseSigningKey(text, name).kid;
    },
    spoil(name: string) {
      writeFileSync(join(directory, name), 'not a key');
    },
    remove(name: string) {
      rmSync(join(directory, name));
    },
  };
}

/** The registry of a new database. */
async function aRegistry(t: Test, lead = 0) {
  const { url, postgres } = await testRecords(t);
  const registry = makeKeyRegistry(postgres.prisma, lead);
  /** Makes all recorded keys older by these seconds. */
  const age = (seconds: number) =>
    sql(
      url,
      `UPDATE signing_keys SET first_seen_at = first_seen_at - $1 * interval '1 second',
        published_at = published_at - $1 * interval '1 second'`,
      [seconds],
    );
  return { url, registry, age };
}

function open(t: Test, directory: string, registry: KeyRegistry, interval = 20, clock = aClock()) {
  let secrets = randomBytes(32).toString('base64url');
  const errors: Error[] = [];
  const outages: (Error | null)[] = [];
  const ring = makeKeyRing({
    signingKeysDir: directory,
    readRefreshSecrets: () => secrets,
    registry,
    onError: (error) => errors.push(error),
    onRegistry: (error) => outages.push(error),
    answering: makeAnswering(clock.monotonic),
  });
  const timer = setInterval(() => void ring.settle(), interval);
  t.teardown(() => {
    clearInterval(timer);
  });
  const setSecrets = (text: string) => {
    secrets = text;
  };
  return { ring, setSecrets, errors, outages };
}

/** Reads the folder only when the test says so. */
const NEVER = 3_600_000;
const kids = ({ ring }: ReturnType<typeof open>) => ring.current().signing.map(({ kid }) => kid);
const outage = () => Promise.reject(new AuthError('unavailable'));
const unreachable: KeyRegistry = { note: outage, join: outage, inUse: outage };

test('at the first start the highest file name signs, and every key verifies', async (t) => {
  const folder = aFolder(t);
  const [a, c, b] = [folder.add('0001.pem'), folder.add('0003.pem'), folder.add('0002.pem')];
  writeFileSync(join(folder.directory, 'README'), 'no key');
  const { registry } = await aRegistry(t, 600);
  const opened = open(t, folder.directory, registry, NEVER);
  await opened.ring.settle();
  t.strictSame(kids(opened), [c, b, a]);
});

test('a folder without a key is refused at the start', (t) => {
  t.throws(() => open(t, aFolder(t).directory, unreachable), /holds no \.pem file/);
  t.end();
});

test('added and removed keys take effect without a restart', async (t) => {
  const folder = aFolder(t);
  const old = folder.add('0001.pem');
  const opened = open(t, folder.directory, (await aRegistry(t)).registry);
  const told: string[][] = [];
  opened.ring.onChange((keys) => {
    told.push(keys.signing.map(({ kid }) => kid));
    return Promise.resolve();
  });

  await opened.ring.settle();
  const next = folder.add('0002.pem');
  await until(() => kids(opened)[0] === next);
  t.strictSame(kids(opened), [next, old]);

  folder.remove('0001.pem');
  await until(() => kids(opened).length === 1);
  t.strictSame(kids(opened), [next]);
  t.strictSame(told, [[old, next], [next, old], [next]], 'listeners get each change');
});

test('a new key verifies at once, and signs after the lead', async (t) => {
  const folder = aFolder(t);
  const old = folder.add('0001.pem');
  const { registry, age } = await aRegistry(t, 600);
  const opened = open(t, folder.directory, registry, NEVER);
  await opened.ring.settle();

  const next = folder.add('0002.pem');
  await opened.ring.settle();
  t.strictSame(kids(opened), [old, next]);
  await age(590);
  await opened.ring.settle();
  t.strictSame(kids(opened), [old, next], 'not yet');
  await age(10);
  await opened.ring.settle();
  t.strictSame(kids(opened), [next, old]);

  const replica = open(t, folder.directory, registry, NEVER);
  await replica.ring.settle();
  t.strictSame(kids(replica), [next, old], 'a replica that starts knows it');
});

test('if the only key is replaced in one step, the new one signs at once', async (t) => {
  const folder = aFolder(t);
  folder.add('0001.pem');
  const { registry } = await aRegistry(t, 600);
  const opened = open(t, folder.directory, registry, NEVER);
  await opened.ring.settle();
  const next = folder.add('0002.pem');
  folder.remove('0001.pem');
  await opened.ring.settle();
  t.strictSame(kids(opened), [next]);
  const more = folder.add('0003.pem');
  await opened.ring.settle();
  t.strictSame(kids(opened), [next, more], 'and still signs when another is added');
});

test('without the registry the signing key stays, and a new process takes the lowest name', async (t) => {
  const folder = aFolder(t);
  const [a, b] = [folder.add('0001.pem'), folder.add('0002.pem')];
  const started = open(t, folder.directory, unreachable, NEVER);
  await started.ring.settle();
  await started.ring.settle();
  t.strictSame(kids(started), [a, b]);
  t.match(started.outages, [{ code: 'unavailable' }], 'reported once');

  const { registry } = await aRegistry(t, 0);
  let isAway = false;
  const switched: KeyRegistry = {
    ...registry,
    note: (notes) => (isAway ? unreachable : registry).note(notes),
  };
  const opened = open(t, folder.directory, switched, NEVER);
  await opened.ring.settle();
  t.strictSame(kids(opened), [b, a]);
  isAway = true;
  const c = folder.add('0003.pem');
  await opened.ring.settle();
  t.strictSame(kids(opened), [b, c, a], 'the new one verifies');
  isAway = false;
  await opened.ring.settle();
  t.strictSame(kids(opened), [c, b, a]);
  t.match(opened.outages, [{ code: 'unavailable' }, null]);
});

test('a request that needs a new key does not wait for the registry', async (t) => {
  const folder = aFolder(t);
  folder.add('0001.pem');
  const hanging: KeyRegistry = { ...unreachable, note: () => new Promise(() => undefined) };
  const opened = open(t, folder.directory, hanging, NEVER);
  void opened.ring.settle();
  await opened.ring.reload();
  const next = folder.add('0002.pem');
  await until(async () => (await opened.ring.reload()).signing.some(({ kid }) => kid === next));
  t.equal(kids(opened).length, 2);
});

test('the registry learns the signing key with the first answer it signs', async (t) => {
  const folder = aFolder(t);
  const old = folder.add('0001.pem');
  const heard: (string | null)[] = [];
  const opened = open(
    t,
    folder.directory,
    {
      ...unreachable,
      note: ({ signing }) => {
        heard.push(signing);
        return heard.length === 1 ? unreachable.note({} as never) : Promise.resolve(new Set([next]));
      },
    },
    NEVER,
  );
  const next = folder.add('0002.pem');
  for (let i = 0; i < 3; i++) await opened.ring.settle();
  t.strictSame(heard, [null, old, next]);
});

test('a renamed key stays one key', async (t) => {
  const folder = aFolder(t);
  const text = generateSigningKey();
  const [low, mid] = [folder.add('0000-next.pem', text), folder.add('0001.pem')];
  const opened = open(t, folder.directory, (await aRegistry(t)).registry, NEVER);
  await opened.ring.settle();
  t.strictSame(kids(opened), [mid, low]);
  folder.add('0002.pem', text);
  await opened.ring.settle();
  t.strictSame(kids(opened), [low, mid]);
});

test('refresh secrets change without a restart', async (t) => {
  const folder = aFolder(t);
  folder.add('0001.pem');
  const { ring, setSecrets } = open(t, folder.directory, unreachable);
  const [before] = ring.current().refresh;
  setSecrets(Buffer.alloc(32, 7).toString('base64url'));
  await until(() => ring.current().refresh[0]?.kid !== before?.kid);
  t.equal(ring.current().refresh.length, 1);
});

test('a new refresh secret signs once it is on record, and meanwhile verifies', async (t) => {
  const folder = aFolder(t);
  folder.add('0001.pem');
  const { registry } = await aRegistry(t);
  let isAway = false;
  const switched: KeyRegistry = {
    ...registry,
    note: (notes) => (isAway ? unreachable : registry).note(notes),
    join: (...joining) => (isAway ? unreachable : registry).join(...joining),
  };
  const [old, next] = [1, 2].map((byte) => Buffer.alloc(32, byte).toString('base64url')) as [string, string];
  const opened = open(t, folder.directory, switched, NEVER);
  const { ring, setSecrets } = opened;
  const refresh = () => ring.current().refresh.map(({ secret }) => secret.toString('base64url'));
  setSecrets(old);
  await ring.register();
  isAway = true;
  setSecrets(`${next},${old}`);
  await ring.settle();
  t.strictSame(refresh(), [old, next]);
  isAway = false;
  await ring.settle();
  t.strictSame(refresh(), [next, old]);
  isAway = true;
  setSecrets(Buffer.alloc(32, 3).toString('base64url'));
  await ring.settle();
  t.equal(refresh().length, 1, 'the only one signs');
  await t.rejects(ring.register(), { code: 'unavailable' });
});

test('a key that others sign with is known without this replica having it', async (t) => {
  const folder = aFolder(t);
  folder.add('0001.pem');
  const { registry } = await aRegistry(t);
  let looks = 0;
  const counted: KeyRegistry = { ...registry, inUse: (sinceLast) => (looks++, registry.inUse(sinceLast)) };
  const { ring } = open(t, folder.directory, counted, NEVER);
  await ring.register();
  const other = { loaded: ['b'], appeared: ['b'], vanished: [], signing: null, refresh: 'theirs' };
  await registry.note(other);
  t.strictSame(await ring.missing(), [{ kid: 'theirs', kind: 'refresh' }]);
  t.equal(looks, 1);
  t.ok(await ring.isInUse('theirs'));
  t.equal(looks, 1, 'known from the last look');
  const invented = Array.from({ length: 50 }, (_, i) => ring.isInUse(`invented ${i}`));
  await registry.note({ ...other, refresh: 'newer' });
  t.ok(await ring.isInUse('newer'), 'recorded after the last look');
  t.notOk((await Promise.all(invented)).includes(true));
  t.equal(looks, 2, 'one look for them all');
  const unasked = open(t, folder.directory, unreachable, NEVER);
  await t.rejects(unasked.ring.isInUse('theirs'), { code: 'unavailable' });
});

test('after an outage, silence shows nothing until the record has answered for 10 s', async (t) => {
  const folder = aFolder(t);
  folder.add('0001.pem');
  const { url, registry } = await aRegistry(t);
  await registry.note({ loaded: ['b'], appeared: ['b'], vanished: [], signing: null, refresh: 'theirs' });
  await sql(url, `UPDATE signing_keys SET signed_at = signed_at - interval '76 seconds'`);
  const clock = aClock();
  let isAway = true;
  const switched: KeyRegistry = {
    ...registry,
    inUse: (sinceLast) => (isAway ? unreachable : registry).inUse(sinceLast),
  };
  const { ring } = open(t, folder.directory, switched, NEVER, clock);
  await t.rejects(ring.missing(), { code: 'unavailable' });
  clock.pass(60_000);
  isAway = false;
  t.match(await ring.missing(), [{ kid: 'theirs' }], 'the last that signed, as far as it shows');
  await t.rejects(ring.isInUse('not yet on record'), { code: 'unavailable' });
  clock.pass(10_000);
  t.strictSame(await ring.missing(), [], 'no replica has come back');
  t.notOk(await ring.isInUse('not yet on record'));
});

test('an unusable key is reported, and those in use stay', async (t) => {
  const folder = aFolder(t);
  const good = folder.add('0001.pem');
  const opened = open(t, folder.directory, unreachable);
  folder.spoil('0002.pem');
  await until(() => opened.errors.length > 0);
  t.match(opened.errors[0]?.message, /0002\.pem/);
  t.strictSame(kids(opened), [good]);
});

test('an unusable file blocks neither other changes nor the removal of the key that had its name', async (t) => {
  const folder = aFolder(t);
  const [a, b] = [folder.add('0001.pem'), folder.add('0002.pem')];
  const opened = open(t, folder.directory, unreachable);
  folder.spoil('0001.pem');
  folder.remove('0002.pem');
  const c = folder.add('0003.pem');
  await until(() => kids(opened).includes(c));
  t.notOk(kids(opened).includes(b), 'a leaked key is gone');
  t.ok(kids(opened).includes(a), 'tokens signed with this one are in use');
  const looks = opened.errors.length;
  t.equal(looks, 1);
  await opened.ring.settle();
  await opened.ring.settle();
  t.equal(opened.errors.length, looks, 'it is reported once');
});
