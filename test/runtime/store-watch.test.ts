import { test } from 'tap';
import { makeStoreWatch } from '../../src/runtime/store-watch.ts';

const cause = (code: string) => ({ code, reason: `because of ${code}`, todo: 'repair it' });

function watch() {
  let now = 0;
  const lines: string[] = [];
  const line = (fields: object, message: string) =>
    lines.push('code' in fields ? `${message}: ${String(fields.code)}` : message);
  const logger = { warn: line as never, info: line as never };
  const made = makeStoreWatch({ logger, store: 'Redis', target: { host: 'redis:6379' }, now: () => now });
  return { ...made, lines, pass: (seconds: number) => (now += seconds * 1000) };
}

test('a cause is logged once, and again when it changes', (t) => {
  const { failed, works, lines, pass } = watch();
  for (const code of ['ECONNREFUSED', 'ECONNREFUSED', 'WRONGPASS', 'WRONGPASS']) failed(cause(code));
  pass(6);
  works();
  works();
  failed(cause('WRONGPASS'));
  t.strictSame(lines, [
    'Redis fails: ECONNREFUSED',
    'Redis fails: WRONGPASS',
    'Redis works again',
    'Redis fails: WRONGPASS',
  ]);
  t.end();
});

test('causes that alternate are not logged again and again', (t) => {
  const { failed, works, lines, pass, cause: present } = watch();
  for (let i = 0; i < 10; i++) {
    failed(cause('READONLY'));
    works();
    failed(cause('LOADING'));
    works();
    pass(1);
  }
  t.strictSame(lines, ['Redis fails: READONLY', 'Redis fails: LOADING']);
  t.equal(present()?.code, 'LOADING');
  pass(60);
  failed(cause('READONLY'));
  t.equal(lines.length, 3, 'but after a minute');
  t.end();
});
