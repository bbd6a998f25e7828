import { test } from 'tap';
import { commandsPerRequest, commandText, countText, type MonitorLine } from './work.ts';

const line = (source: string, ...args: string[]): MonitorLine => ({ source, args });
const times = (count: number, ...lines: MonitorLine[]) => Array.from({ length: count }, () => lines).flat();

test('the commands of a server are those of the connections that use its prefix', (t) => {
  const lines = [
    ...times(100, line('1:1', 'get', 'peer:a'), line('1:1', 'exec')),
    ...times(50, line('1:2', 'HGET', 'peer:b', 'field')),
    ...times(100, line('1:3', 'GET', 'another:a')),
  ];
  t.strictSame(commandsPerRequest(lines, 'peer:', 100), { EXEC: 1, GET: 1, HGET: 0.5 });
  t.end();
});

test('a script counts once, with all that it does', (t) => {
  const lines = times(10, line('1:1', 'evalsha', 'digest', '1', 'peer:a'), line('lua', 'hmget', 'peer:a'));
  t.strictSame(commandsPerRequest(lines, 'peer:', 10), { EVALSHA: 1 });
  t.end();
});

test('background work does not count', (t) => {
  const lines = [...times(1000, line('1:1', 'GET', 'peer:a')), ...times(9, line('1:1', 'PING'))];
  t.strictSame(commandsPerRequest(lines, 'peer:', 1000), { GET: 1 });
  t.end();
});

test('counts read as whole numbers where they nearly are', (t) => {
  t.equal(commandText({ GET: 2.996, HSET: 0.5 }), '3 GET, 0.5 HSET');
  t.equal(commandText({}), '–');
  t.equal(countText(0.031), '0.03');
  t.equal(countText(0.004), '0');
  t.equal(countText(11.02), '11');
  t.end();
});
