import { test } from 'tap';
import { parseLocale, preferredLocale } from '../../../src/domain/users/locale.ts';

test('a locale is a language tag, in its canonical form', (t) => {
  for (const [raw, value] of [
    ['en', 'en'],
    ['PT-br', 'pt-BR'],
    ['zh-hant-TW', 'zh-Hant-TW'],
    ['sh', 'sr-Latn'],
    ['de-u-co-phonebk', 'de-u-co-phonebk'],
    [`en-x-${'a'.repeat(8)}-${'b'.repeat(8)}-${'c'.repeat(8)}-ddd`, null],
  ] as const) {
    const canonical = value ?? raw;
    t.strictSame(parseLocale(raw), { ok: true, value: canonical }, raw);
    t.strictSame(parseLocale(canonical), { ok: true, value: canonical }, 'canonical forms stay');
  }
  for (const raw of ['', '*', 'en_US', 'en-', 'x', ' en', 'en\u0000', 'é', 'en,de'])
    t.match(parseLocale(raw), { ok: false, code: 'format' }, JSON.stringify(raw));
  t.end();
});

test('a locale has at most 35 characters, also in its canonical form', (t) => {
  const longest = 'sr-Latn-RS-x-abcdefgh-abcdefgh-abcd';
  t.equal(longest.length, 35);
  t.match(parseLocale(longest), { ok: true });
  for (const raw of [`${longest}e`, 'x'.repeat(100_000)])
    t.match(parseLocale(raw), { ok: false, code: 'too_long', params: { max: 35 } }, raw.slice(0, 40));
  const grows = `sh-RS-x-${'a'.repeat(8)}-${'b'.repeat(8)}-${'c'.repeat(8)}`;
  t.equal(grows.length, 34);
  t.match(parseLocale(grows), { ok: false, code: 'too_long', params: { max: 35 } });
  t.end();
});

test('of a client’s languages, the one of the greatest weight is taken', (t) => {
  for (const [header, locale] of [
    ['de', 'de'],
    ['de-CH, fr;q=0.9, en;q=0.8', 'de-CH'],
    ['en;q=0.5,pt-br;q=0.75 , fr ;q=0.7', 'pt-BR'],
    ['en;q=0.5, fr;Q=0.5', 'en'],
    ['en;q=1.000,de', 'en'],
    ['*, en;q=0.1', 'en'],
    ['en_US, de;q=0.1', 'de'],
    ['en;q=0, de;q=0.001', 'de'],
    ['en;q=2, en;q=x, en;level=1, de;q=0.1', 'de'],
    [`${'x'.repeat(36)}, de;q=0.1`, 'de'],
  ] as const)
    t.equal(preferredLocale(header), locale, header);
  t.end();
});

test('what names no language is none, however long it is', (t) => {
  for (const header of [undefined, '', '*', '*;q=0.5', ',,;', 'en;q=0', 'en_US', 'C', '\u0000', 'é'])
    t.equal(preferredLocale(header), null, String(header));
  for (const part of ['x,', 'a', ' ', ';q=', 'en;q=0.1,', 'x-y,', '\t;']) {
    const header = part.repeat(8192 / part.length);
    const begun = performance.now();
    t.ok([null, 'en'].includes(preferredLocale(header)), part);
    t.ok(performance.now() - begun < 50, 'at once');
  }
  t.equal(preferredLocale(`${'*,'.repeat(20)}en`), null, 'browsers send a few tags');
  t.end();
});
