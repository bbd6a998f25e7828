import { test } from 'tap';
import { deviceNameOf, deviceOf } from '../../../src/http/caller/device.ts';

test('a device without a name gets a short one', (t) => {
  const firefox = 'Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0';
  t.equal(deviceOf(firefox), 'Firefox on Linux');
  t.equal(deviceOf('curl/8.5.0'), 'curl/8.5.0');
  t.equal(deviceOf('okhttp/4.9.3 (Android)'), 'okhttp/4.9.3');
  t.end();
});

test('a User-Agent without a product is unknown', (t) => {
  for (const userAgent of [undefined, '', ' ', 'Mozilla', '\u0085']) {
    t.match(deviceOf(userAgent), userAgent === 'Mozilla' ? 'Mozilla' : 'unknown', JSON.stringify(userAgent));
  }
  t.equal(deviceOf(`x${'y'.repeat(5000)}`).length, 64);
  t.end();
});

test('a given device name is kept unless it is invisible', (t) => {
  t.equal(deviceNameOf('Kitchen tablet', 'curl/8.5.0'), 'Kitchen tablet');
  for (const given of [undefined, '\u200b', '\u0000 '])
    t.equal(deviceNameOf(given, 'curl/8.5.0'), 'curl/8.5.0', encodeURI(given ?? 'none'));
  // The domain refuses these, each for its own reason.
  for (const given of ['', ' ', '\ud800']) t.equal(deviceNameOf(given, 'curl/8.5.0'), given);
  t.equal(deviceNameOf('\u200b', undefined), 'unknown');
  t.end();
});
