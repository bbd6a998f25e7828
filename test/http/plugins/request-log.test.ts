import { Writable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import { pino } from 'pino';
import { test } from 'tap';
import { makeRequestLog } from '../../../src/http/plugins/request-log.ts';
import { LINE_FORMAT } from '../../../src/runtime/logger.ts';
import { aClock } from '../../support/clock.ts';
import { logLines } from '../../support/log-lines.ts';
import { someTimers } from '../../support/timers.ts';

/** A log whose clock and timer the test moves. */
function aRequestLog() {
  let written = '';
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      written += chunk.toString();
      done();
    },
  });
  const logger = pino({ ...LINE_FORMAT, level: 'info' }, sink);
  const clock = aClock();
  const { timers, goOff, waiting } = someTimers();
  const log = makeRequestLog({
    logger,
    logged: { verify: 'failures', introspection: 'none', refresh: 'all', documents: 'all', other: 'all' },
    clock,
    timers,
  });
  /** The lines since the last call. */
  const lines = () => {
    const found = logLines(written);
    written = '';
    return found;
  };
  const send = (times: number, status = 401, found: object = {}) => {
    const request = {
      errorCode: 'invalid_token',
      refusalReason: 'signature',
      refusedService: null,
      ...found,
    };
    const routed = { log: logger, routeOptions: { config: { group: 'verify' } }, ...request };
    for (let i = 0; i < times; i++) log.ended(routed as unknown as FastifyRequest, status, 0);
    return lines();
  };
  return { log, logger, clock, goOff, waiting, lines, send };
}

test('of refused strangers ten at once leave a line, then one a second, which says what is left out', (t) => {
  const { clock, send } = aRequestLog();
  t.equal(send(15).length, 10);
  clock.pass(999);
  t.strictSame(send(1), []);
  clock.pass(1);
  const [line, ...more] = send(3);
  t.match(line, { msg: 'request', status: 401, skipped: 6 });
  t.strictSame(more, []);
  clock.pass(2500);
  t.match(
    send(3).map(({ skipped }) => skipped),
    [2, undefined],
  );
  clock.pass(60_000);
  t.equal(send(20).length, 10, 'after a pause ten again');
  t.end();
});

test('each group, status, code and reason has lines of its own', (t) => {
  const { send } = aRequestLog();
  send(20);
  for (const other of [
    { routeOptions: { config: { group: 'refresh' } } },
    { routeOptions: { config: {} } },
    { errorCode: 'token_missing', refusalReason: null },
    { refusalReason: 'malformed' },
  ])
    t.equal(send(20, 401, other).length, 10, JSON.stringify(other));
  t.equal(send(20, 403).length, 10);
  t.equal(send(20, 200, { routeOptions: { config: {} } }).length, 20, 'no limit without a refusal');
  t.strictSame(send(20, 401, { routeOptions: { config: { group: 'introspection' } } }), []);
  t.end();
});

test('a minute later, or at the end, a line says what is left out', (t) => {
  const { log, goOff, waiting, lines, send } = aRequestLog();
  send(10);
  t.strictSame(waiting(), [], 'nothing is left out');
  send(5);
  send(15, 503, { errorCode: 'unavailable', refusalReason: null });
  t.strictSame(waiting(), [60_000]);
  goOff();
  const rest = { line: 'request', group: 'verify', skipped: 5, msg: 'lines of requests were left out' };
  t.match(lines(), [
    { ...rest, level: 'info', status: 401, code: 'invalid_token', reason: 'signature' },
    { ...rest, level: 'warn', status: 503, code: 'unavailable' },
  ]);
  send(1);
  t.strictSame(waiting(), [60_000], 'again');
  log.close();
  t.match(lines(), [{ skipped: 1 }]);
  t.strictSame(waiting(), []);
  log.close();
  t.strictSame(lines(), []);
  t.end();
});

test('at level debug every request leaves its line, and uses up none', (t) => {
  const { logger, clock, send } = aRequestLog();
  send(15);
  logger.level = 'debug';
  const [first, ...rest] = send(1000);
  t.equal(first?.skipped, 5);
  t.equal(rest.length, 999);
  logger.level = 'trace';
  t.equal(send(20).length, 20);
  logger.level = 'info';
  clock.pass(1000);
  t.equal(send(20).length, 1);
  t.end();
});
