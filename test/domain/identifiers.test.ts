import fc from 'fast-check';
import { test } from 'tap';
import {
  collectFields,
  lengthOf,
  parseEmail,
  parseLabel,
  parseLoginName,
  parseUsername,
  type Parsed,
} from '../../src/domain/identifiers.ts';
import { testScale } from '../support/environment.ts';

const numRuns = Math.ceil(3000 * testScale);
/** Any text: whole characters, lone surrogates, and characters that change when normalised or lower-cased. */
const anyText = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 70 }),
  fc.string({ unit: 'grapheme', maxLength: 70 }),
  fc.string({
    unit: fc.constantFrom(
      'İ',
      'ẞ',
      'ﬁ',
      'Å',
      'ﷺ',
      'K',
      'e\u0301',
      'Σ',
      ' ',
      '\u3000',
      '\u00a0',
      '@',
      '\ud800',
      'x',
    ),
    maxLength: 70,
  }),
);
const valueOf = (parsed: Parsed) => (parsed.ok ? parsed.value : null);
const parsers = { parseUsername, parseEmail, parseLabel };

for (const [name, parse] of Object.entries(parsers)) {
  test(`${name}: a canonical value stays unchanged`, (t) => {
    let taken = 0;
    const holds = (text: string) => {
      const value = valueOf(parse(text));
      if (value === null) return true;
      taken++;
      return valueOf(parse(value)) === value;
    };
    const text = name === 'parseEmail' ? fc.tuple(anyText, anyText).map((parts) => parts.join('@')) : anyText;
    t.doesNotThrow(() => {
      fc.assert(fc.property(text, holds), { numRuns });
    });
    t.ok(taken > 0, `${taken} of ${numRuns} were taken`);
    t.end();
  });

  test(`${name}: a problem is reported without the value`, (t) => {
    const messages = new Set<string>();
    fc.assert(
      fc.property(anyText, (text) => {
        const parsed = parse(text);
        if (!parsed.ok) messages.add(parsed.message);
      }),
      { numRuns },
    );
    t.ok(messages.size > 0);
    for (const message of messages) t.match(message, /^must (not )?(be|hold|have)[a-z0-9 @,-]*(Unicode)?$/);
    t.end();
  });

  test(`${name}: a lone surrogate is refused`, (t) => {
    for (const lone of ['\ud800', 'a\udc00', 'a\ud800@b', '\udc00\ud800@b']) {
      t.strictSame(parse(lone), { ok: false, message: 'must be well-formed Unicode' });
    }
    t.end();
  });
}

test('an accepted username contains no forbidden character', (t) => {
  t.doesNotThrow(() => {
    fc.assert(
      fc.property(anyText, (text) => {
        const value = valueOf(parseUsername(text));
        if (value === null) return true;
        const length = Array.from(value).length;
        return (
          length >= 1 && length <= 64 && !/[\s\p{Cc}@]/u.test(value) && value === value.normalize('NFKC')
        );
      }),
      { numRuns },
    );
  });
  t.end();
});

test('all spellings of a username give the same username', (t) => {
  for (const typed of ['ada', 'ADA', ' Ada\t', 'ａｄａ', '\u3000ada']) {
    t.strictSame(parseUsername(typed), { ok: true, value: 'ada' }, typed);
  }
  t.equal(valueOf(parseUsername('ZOE\u0308')), 'zo\u00eb');
  t.equal(valueOf(parseUsername('ﬁn')), 'fin');
  for (const refused of ['', ' ', '\u3000', 'a b', 'a\u00a0b', 'a@b', 'a\u0000b', 'a\u0085b', 'a\u200a']) {
    if (refused === 'a\u200a') t.match(parseUsername(refused), { ok: true, value: 'a' }, 'trimmed');
    else t.match(parseUsername(refused), { ok: false }, JSON.stringify(refused));
  }
  t.end();
});

test('lengths count code points after normalisation', (t) => {
  t.equal(lengthOf('👩‍🚀'), 3);
  t.match(parseUsername('𝒜'.repeat(64)), { ok: true, value: 'a'.repeat(64) });
  t.match(parseUsername('e\u0301'.repeat(64)), { ok: true });
  t.match(parseUsername('x'.repeat(65)), { ok: false });
  t.match(parseUsername('😀'.repeat(64)), { ok: true });
  t.match(parseUsername('😀'.repeat(65)), { ok: false });
  t.match(parseUsername(` ${'x'.repeat(64)} `), { ok: true }, 'after trimming');
  t.match(parseUsername('ﷺ'.repeat(4)), { ok: false }, 'one character that becomes eighteen, with spaces');
  t.match(parseUsername('ﬃ'.repeat(22)), { ok: false }, '22 characters that become 66');
  t.match(parseLabel('😀'.repeat(128)), { ok: true });
  t.match(parseLabel('😀'.repeat(129)), { ok: false });
  t.match(parseEmail(`${'x'.repeat(252)}@y`), { ok: true });
  t.match(parseEmail(`${'x'.repeat(253)}@y`), { ok: false });
  t.end();
});

test('an address has one @ with text on both sides', (t) => {
  t.strictSame(parseEmail(' Ada.Lovelace@Example.COM '), { ok: true, value: 'ada.lovelace@example.com' });
  for (const refused of ['', '@', 'a@', '@b', 'a@b@c', 'a', 'a b@c', 'a@b\u0000', 'a@b\nc', 'a\u00a0@b']) {
    t.match(parseEmail(refused), { ok: false }, JSON.stringify(refused));
  }
  t.end();
});

test('a label keeps its case and its inner spaces', (t) => {
  t.strictSame(parseLabel('  Ada  LOVELACE '), { ok: true, value: 'Ada  LOVELACE' });
  for (const refused of ['', '  ', 'a\tb', 'a\nb', 'a\u0085b']) t.match(parseLabel(refused), { ok: false });
  t.end();
});

test('a login name with @ is an address; null if it is neither address nor username', (t) => {
  t.strictSame(parseLoginName(' ADA '), { username: 'ada' });
  t.strictSame(parseLoginName('ADA@Example.com'), { email: 'ada@example.com' });
  for (const neither of ['', ' ', 'a b', '@', 'a@b@c', '\ud800', 'x'.repeat(65)]) {
    t.equal(parseLoginName(neither), null, JSON.stringify(neither));
  }
  t.end();
});

test('all problems are reported together, with their paths', (t) => {
  const { values, errors } = collectFields({
    username: parseUsername(''),
    name: parseLabel('Ada'),
    email: parseEmail('nowhere'),
  });
  t.equal(values.name, 'Ada');
  t.strictSame(errors, [
    { path: '/username', message: 'must not be blank' },
    { path: '/email', message: 'must be an e-mail address' },
  ]);
  t.end();
});
