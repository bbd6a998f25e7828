import { test } from 'tap';
import { makeServiceDirectory } from '../../../src/domain/services/directory.ts';
import type { RegisteredService } from '../../../src/domain/services/registered-service.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import { aClock } from '../../support/clock.ts';
import { aServiceRecord } from '../../support/memory-service-store.ts';

const aClient = (serviceId: string) =>
  aServiceRecord({ serviceId, name: serviceId, audience: `audience of ${serviceId}` });

/** A record that answers when the test says so, with its content at that time. */
function aDirectory() {
  const clock = aClock();
  const sleeps: number[] = [];
  const record: RegisteredService[] = [];
  const asked: { answer: () => void; fail: () => void }[] = [];
  const store = {
    issuers: () => Promise.resolve(new Map<string, null>()),
    list: () =>
      new Promise<RegisteredService[]>((resolve, reject) => {
        const seen = [...record];
        asked.push({
          answer: () => {
            resolve(seen);
          },
          fail: () => {
            reject(new AuthError('unavailable'));
          },
        });
      }),
  };
  const sleep = (ms: number) => {
    sleeps.push(ms);
    clock.pass(ms);
    return Promise.resolve();
  };
  return { clock, sleeps, record, asked, directory: makeServiceDirectory({ store, clock, sleep }) };
}

/** Lets all pending microtasks run. */
const settle = () => new Promise((resolve) => setImmediate(resolve));

test('concurrent callers share a load, and loads start at most once a second', async (t) => {
  const { clock, sleeps, asked, directory } = aDirectory();
  const first = [directory.refresh(), directory.refresh(), directory.refresh()];
  await settle();
  t.equal(asked.length, 1);
  asked[0]?.answer();
  await Promise.all(first);
  t.strictSame(sleeps, []);

  clock.pass(400);
  const second = [directory.refresh(), directory.refresh()];
  await settle();
  asked[1]?.answer();
  await Promise.all(second);
  t.strictSame(sleeps, [600]);
  t.equal(asked.length, 2);

  clock.pass(5000);
  const third = directory.refresh();
  await settle();
  asked[2]?.answer();
  await third;
  t.strictSame(sleeps, [600], 'a late caller does not wait');
});

test('while a load hangs, callers begin no other one', async (t) => {
  const { clock, asked, directory } = aDirectory();
  const first = t.rejects(directory.refresh(), { code: 'unavailable' });
  await settle();
  clock.pass(5000);
  const second = directory.refresh();
  await settle();
  t.equal(asked.length, 1);
  asked[0]?.fail();
  await first;
  await settle();
  asked[1]?.answer();
  await second;
});

test('a load that had already started does not count as fresh', async (t) => {
  const { record, asked, directory } = aDirectory();
  const before = directory.load();
  record.push(aClient('new'));
  let isKnown = false;
  const refreshed = directory.refresh().then(() => (isKnown = true));
  asked[0]?.answer();
  await before;
  await settle();
  t.equal(isKnown, false);
  t.equal(directory.find('new'), undefined);
  asked[1]?.answer();
  await refreshed;
  t.match(directory.find('new'), { serviceId: 'new' });
});

test('of two loads the later start counts, even if the other ends later', async (t) => {
  const { record, asked, directory } = aDirectory();
  record.push(aClient('a'));
  const slow = directory.load();
  record.length = 0;
  const quick = directory.load();
  asked[1]?.answer();
  await quick;
  asked[0]?.answer();
  await slow;
  t.equal(directory.find('a'), undefined);
});

test('known clients stay while the record is down; changes show after the outage', async (t) => {
  const { clock, record, asked, directory } = aDirectory();
  record.push(aClient('a'));
  const loaded = directory.load();
  asked[0]?.answer();
  await loaded;
  record[0] = aClient('b');

  clock.pass(2000);
  const failed = t.rejects(directory.load(), { code: 'unavailable' });
  asked[1]?.fail();
  await failed;
  t.match(directory.find('a'), { serviceId: 'a' });
  t.equal(directory.hasAudience('audience of a'), true);
  const refused = t.rejects(directory.refresh(), { code: 'unavailable' });
  await settle();
  asked[2]?.fail();
  await refused;

  const again = directory.load();
  asked[3]?.answer();
  await again;
  t.equal(directory.find('a'), undefined);
  t.match(directory.find('b'), { serviceId: 'b' });
  t.strictSame(['audience of a', 'audience of b'].map(directory.hasAudience), [false, true]);
});

test('workloads, keys and versions are those on record; what has not changed stays', async (t) => {
  const [issuer, other] = ['https://issuer.example', 'https://other.example'];
  const trust = { issuer, subject: 'a pod' };
  const record: RegisteredService[] = [
    { ...aClient('a'), trusts: [trust] },
    { ...aClient('b'), disabledAt: 1 },
  ];
  let keys = ['first'];
  const jwks = () => ({ keys: keys.map((kid) => ({ kid })) });
  const store = {
    list: () => Promise.resolve([...record]),
    issuers: () =>
      Promise.resolve(
        new Map([
          [issuer, jwks()],
          [other, null],
        ]),
      ),
  };
  const directory = makeServiceDirectory({ store, clock: aClock(), sleep: () => Promise.resolve() });
  const told: unknown[] = [];
  directory.onVersions((versions) => told.push(versions));
  await directory.load();
  t.equal(directory.findTrusting(trust), record[0]);
  t.equal(directory.findTrusting({ ...trust, subject: 'another pod' }), undefined);
  t.equal(directory.findTrusting({ ...trust, issuer: other }), undefined);
  t.strictSame(directory.versions(), { a: 1 }, 'a disabled client has none');
  t.equal(directory.issuers().get(other), null);

  const before = directory.issuers().get(issuer);
  await directory.load();
  t.equal(directory.issuers().get(issuer), before);
  t.strictSame(told, [{ a: 1 }]);

  keys = ['second'];
  record[0] = { ...aClient('a'), version: 2 };
  await directory.load();
  t.strictSame(directory.issuers().get(issuer), { keys: [{ kid: 'second' }] });
  t.strictSame(told, [{ a: 1 }, { a: 2 }]);
});
