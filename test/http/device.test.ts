import { test } from 'tap';
import { deviceOf } from '../../src/http/device.ts';

test('a device that does not name itself gets a short name', (t) => {
  const firefox = 'Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0';
  t.equal(deviceOf(firefox), 'Firefox on Linux');
  t.equal(deviceOf('curl/8.5.0'), 'curl/8.5.0');
  t.equal(deviceOf('okhttp/4.9.3 (Android)'), 'okhttp/4.9.3');
  t.end();
});

test('a User-Agent that says nothing is unknown', (t) => {
  for (const userAgent of [undefined, '', ' ', 'Mozilla', '\u0085']) {
    t.match(deviceOf(userAgent), userAgent === 'Mozilla' ? 'Mozilla' : 'unknown', JSON.stringify(userAgent));
  }
  t.equal(deviceOf(`x${'y'.repeat(5000)}`).length, 64);
  t.end();
});
