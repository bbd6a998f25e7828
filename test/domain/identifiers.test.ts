import fc from 'fast-check';
import { test } from 'tap';
import { addressAsGiven, canonicalAddress, spellingsOf, storedAddress } from '../../src/domain/address.ts';
import {
  collectFields,
  ILL_FORMED,
  lengthOf,
  parseEmail,
  parseExternalId,
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
      t.strictSame(parse(lone), { ok: false, ...ILL_FORMED });
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

test('an address stays as it was given, if RFC 5321 knows it as a mailbox without quotes', (t) => {
  for (const given of [
    'Ada.Lovelace@Example.COM',
    "!#$%&'*+-/=?^_`{|}~@x",
    'Ünï.cödé@bücher.example',
    'x@xn--bcher-kva.example',
    'x@[192.0.2.1]',
    'x@[IPv6:2001:DB8::1]',
  ])
    t.strictSame(parseEmail(` ${given}\t`), { ok: true, value: given });
  t.strictSame(parseEmail('e\u0301@x'), { ok: true, value: '\u00e9@x' });
  const odd = ['', 'a b@c', 'a@b\u0000', 'a@b\nc', 'a\u00a0@b'];
  const refused =
    '@ a@ @b a@b@c a <x@example.com> x@example..com x..y@example.com .x@example.com x.@example.com ' +
    'x@example.com. x@.example.com x@-a x@a- x@a_b "x"@a x(y)@a x,y@a x;@a x\u037e@a x@a%41 x@a:25 ' +
    'x@a/b x@bücher..example x@bücher。 x@ü/y x@ü：25 x@a＠b x@xn-- x@xn--a x@１.２ x@[1.2] x@[::1] ' +
    'x@[IPv6:fe80::1%eth0]';
  for (const each of [...odd, ...refused.split(' ')])
    t.match(parseEmail(each), { ok: false }, JSON.stringify(each));
  t.end();
});

test('spellings of one mailbox have one canonical form, and others do not', (t) => {
  const same = [
    [
      'x@bücher.example',
      'X@BÜCHER.example',
      'x@bu\u0308cher.example',
      'x@xn--bcher-kva.example',
      'x@XN--Bcher-KVA.example',
      'x@bücher。example',
    ],
    ['é@x', 'e\u0301@X'],
    ['ẗ@x', 'T\u0308@x'],
    ['x@example.com', 'x@ｅxample.com', ' X@Example.Com '],
    ['x@xn--73g.com', 'x@ⅎ.com', 'x@Ⅎ.com'],
  ];
  const forms = same.map((spellings) => new Set(spellings.map(canonicalAddress)));
  for (const form of forms) t.equal(form.size, 1, [...form].join(' '));
  const apart = ['É@x', 'é@x', 'e@x', 'İ@x', 'i@x', 'ſ@x', 's@x', 'ﬁ@x', 'fi@x', 'x@faß.de', 'x@fass.de'];
  t.equal(new Set(apart.map(canonicalAddress)).size, apart.length);
  t.end();
});

test('what the record holds of an address keeps two apart that are not the same', (t) => {
  const unit = fc.constantFrom(
    ...Array.from('aAéÉeTtẗKİßẞſ.@xn-'),
    '\u0301',
    '\u0308',
    'xn--',
    'ü',
    '。',
    'ｅ',
  );
  const text = fc.oneof(
    anyText,
    fc.array(unit, { maxLength: 9 }).map((parts) => parts.join('')),
  );
  const address = fc.tuple(text, text).map((parts) => addressAsGiven(parts.join('@')));
  fc.assert(
    fc.property(address, (given) => {
      const key = canonicalAddress(given);
      const { email, emailKey } = storedAddress(given);
      // A row is found by either: 1.0.0 has only written `email`, and of plain ASCII nothing else is stored.
      return (emailKey ?? email) === key && canonicalAddress(email) === key && canonicalAddress(key) === key;
    }),
    { numRuns },
  );
  t.strictSame(storedAddress('Ada@Example.com'), {
    email: 'ada@example.com',
    emailGiven: 'Ada@Example.com',
    emailKey: null,
  });
  t.match(storedAddress('X@Bücher.example'), { email: 'x@bücher.example' }, 'as 1.0.0 looks it up');
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

test('an external id is 1 to 128 visible ASCII characters, and stays as it is', (t) => {
  for (const id of ['7', 'A', 'crm:4711/a~!', 'x'.repeat(128)])
    t.strictSame(parseExternalId(id), { ok: true, value: id });
  t.match(parseExternalId(''), { ok: false, code: 'blank' });
  t.match(parseExternalId('x'.repeat(129)), { ok: false, code: 'too_long', params: { max: 128 } });
  for (const id of ['a b', ' a', 'a\n', '\u00e9', '\u007f', '\0', '\ud800', '４'])
    t.match(parseExternalId(id), { ok: false, code: 'not_allowed_character' }, encodeURI(id.toWellFormed()));
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
    { path: '/username', code: 'blank', message: 'must not be blank' },
    { path: '/email', code: 'format', message: 'must be an e-mail address' },
  ]);
  t.end();
});

test('an address is reserved in the form of 1.0.0 too, even if nothing is stored in that form', (t) => {
  for (const [given, former] of [
    ['É@example.com', 'é@example.com'],
    ['x@Ｅxample.com', 'x@ｅxample.com'],
  ] as const)
    t.ok(spellingsOf(given).includes(former));
  t.end();
});
