import { test } from 'tap';
import { cleanUserAgent } from '../../../src/http/caller/source.ts';

test('what a User-Agent shows of private text is removed', (t) => {
  const browser = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0';
  t.equal(cleanUserAgent(browser), browser);
  for (const text of [
    'ada@example.com',
    'ada＠example.com',
    'ada%40example.com',
    'xeyJhbGciOiJFUzI1',
    'lks_abc',
  ])
    t.equal(cleanUserAgent(`app ${text} 1.0`), 'app [removed] 1.0', text);
  t.equal(cleanUserAgent('app Basic bGtjOmxrcw== 1.0'), 'app [removed] 1.0');
  t.equal(cleanUserAgent('a\r\nb\u2028c'), 'a b c');
  t.equal(cleanUserAgent(undefined), null);
  t.end();
});
