import { test } from 'tap';
import { deferred } from '../../../test/support/deferred.ts';
import { makeCrowd, makeDraw } from '../src/crowd.ts';
import type { Device } from '../src/device.ts';
import type { Operation } from '../src/scenarios.ts';

/** A device whose operation ends when the test says so. */
function aDevice(isSignedIn: boolean) {
  const ran: [Operation, number][] = [];
  let end: () => void = () => undefined;
  const device: Device = {
    isSignedIn: () => isSignedIn,
    run(operation, due) {
      ran.push([operation, due]);
      const { promise, resolve } = deferred<undefined>();
      end = () => {
        resolve(undefined);
      };
      return promise;
    },
  };
  return {
    device,
    ran,
    async end() {
      end();
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

const noNewcomer = () => aDevice(true).device;
const fail = (error: unknown) => {
  throw error;
};

test('a login takes a device without a session, and the rest those with one', (t) => {
  const [signedIn, signedOut] = [aDevice(true), aDevice(false)];
  const devices = [signedIn.device, signedOut.device];
  const crowd = makeCrowd({ devices, makeNewcomer: noNewcomer, random: () => 0, fail });
  crowd.arrive('login', 1);
  crowd.arrive('verify', 2);
  t.strictSame(signedOut.ran, [['login', 1]]);
  t.strictSame(signedIn.ran, [['verify', 2]]);
  t.end();
});

test('an arrival without a free device waits, and keeps its due time', async (t) => {
  const only = aDevice(true);
  const crowd = makeCrowd({ devices: [only.device], makeNewcomer: noNewcomer, random: () => 0, fail });
  crowd.arrive('verify', 1);
  crowd.arrive('refresh', 2);
  t.equal(crowd.waiting(), 1);
  await only.end();
  t.strictSame(only.ran, [
    ['verify', 1],
    ['refresh', 2],
  ]);
  t.equal(crowd.waiting(), 0);
});

test('a signup adds a device, which others may use later', async (t) => {
  const newcomer = aDevice(true);
  const crowd = makeCrowd({ devices: [], makeNewcomer: () => newcomer.device, random: () => 0, fail });
  crowd.arrive('signup', 1);
  t.equal(crowd.devices(), 1);
  await newcomer.end();
  crowd.arrive('verify', 2);
  t.strictSame(newcomer.ran, [
    ['signup', 1],
    ['verify', 2],
  ]);
});

test('the end waits for what runs, and begins nothing that waits', async (t) => {
  const only = aDevice(true);
  const crowd = makeCrowd({ devices: [only.device], makeNewcomer: noNewcomer, random: () => 0, fail });
  crowd.arrive('verify', 1);
  crowd.arrive('verify', 2);
  const finished = crowd.finish();
  t.equal(crowd.busy(), 1);
  await only.end();
  await finished;
  t.equal(crowd.busy(), 0);
  t.equal(only.ran.length, 1);
});

test('what a device throws is passed on, and the end does not wait for it', async (t) => {
  const failures: unknown[] = [];
  const error = new Error('no JSON');
  const device: Device = { isSignedIn: () => true, run: () => Promise.reject(error) };
  const crowd = makeCrowd({
    devices: [device],
    makeNewcomer: noNewcomer,
    random: () => 0,
    fail: (each) => failures.push(each),
  });
  crowd.arrive('verify', 1);
  await crowd.finish();
  t.strictSame(failures, [error]);
  t.equal(crowd.busy(), 0);
});

test('operations are drawn by their weights', (t) => {
  const dice = { at: 0 };
  const draw = makeDraw({ verify: 3, refresh: 1 }, () => dice.at);
  const drawn = Array.from({ length: 100 }, (_, i) => {
    dice.at = i / 100;
    return draw();
  });
  t.equal(drawn.filter((each) => each === 'verify').length, 75);
  t.equal(drawn.filter((each) => each === 'refresh').length, 25);
  t.end();
});
