import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'tap';
import { makeReadiness } from '../src/readiness.ts';
import { unavailable } from '../src/verifier-error.ts';

const MISTAKE = unavailable('configuration', 'client.secret is wrong');
const OUTAGE = unavailable('unreachable', 'ECONNREFUSED');

test('waits until every part has worked', async (t) => {
  const readiness = makeReadiness();
  let isReady = false;
  const waiting = readiness.wait().then(() => (isReady = true));
  readiness.failed('keys', OUTAGE);
  readiness.loaded('keys');
  readiness.failed('feed', OUTAGE);
  await sleep(0);
  t.notOk(isReady);
  readiness.loaded('feed');
  await waiting;
  readiness.failed('feed', OUTAGE);
  await t.resolves(readiness.wait(), 'an outage afterwards changes nothing');
});

test('rejects for a mistake, at once or when it is found, until it is corrected', async (t) => {
  const readiness = makeReadiness();
  const waiting = readiness.wait();
  readiness.loaded('keys');
  readiness.failed('feed', MISTAKE);
  await t.rejects(waiting, MISTAKE);
  await t.rejects(readiness.wait(), MISTAKE);
  readiness.loaded('feed');
  await t.resolves(readiness.wait());
  readiness.failed('feed', MISTAKE);
  await t.rejects(readiness.wait(), MISTAKE, 'also one that is made later');
});

test('a signal or the end of the verifier ends the wait, and the error says what is missing', async (t) => {
  const readiness = makeReadiness();
  const stopping = new AbortController();
  const waiting = readiness.wait(stopping.signal);
  const another = readiness.wait();
  readiness.failed('keys', OUTAGE);
  stopping.abort();
  await t.rejects(waiting, { reason: 'not_ready', message: /the time is over: ECONNREFUSED/, cause: OUTAGE });
  await t.rejects(
    readiness.wait(stopping.signal),
    { code: 'unavailable', reason: 'not_ready' },
    'aborted before',
  );
  readiness.close();
  await t.rejects(another, { reason: 'not_ready', message: /it is closed: ECONNREFUSED/ });
});
