import fc from 'fast-check';
import { test } from 'tap';
import {
  FORMATS,
  mostPhpassBlocks,
  parseForeignHash,
  phpassBlocks,
} from '../../../src/infra/crypto/foreign-hash.ts';
import { trimmed } from '../../../src/infra/crypto/hashed-texts.ts';
import { makePasswordHasher } from '../../../src/infra/crypto/password-hasher.ts';
import { CHEAP } from './cheap-formats.ts';
import { RECORDED } from './php-texts.ts';

const hasher = makePasswordHasher({ logN: 4, r: 8, p: 1 }, 28 * 1024 ** 2);

type Alteration = 'sent' | 'trimmed' | 'wordPress' | 'slashed' | 'phpBB' | 'phpBB30';

/** What the systems of a format hash, the usual one's first; the systems that alter nothing for all others. */
const SYSTEMS: Record<string, readonly Alteration[]> = {
  $argon2id$: ['sent', 'phpBB', 'slashed'],
  $argon2i$: ['sent', 'phpBB', 'slashed'],
  $argon2d$: ['sent', 'phpBB', 'slashed'],
  $2a$: ['sent', 'phpBB', 'slashed'],
  $2b$: ['sent', 'phpBB', 'slashed'],
  $2y$: ['sent', 'phpBB', 'slashed'],
  $wp$2y$: ['wordPress', 'trimmed'],
  $P$: ['wordPress', 'trimmed', 'sent'],
  $H$: ['phpBB30', 'phpBB', 'sent'],
};

/** The four texts at most of a format for a password. */
async function textsOf(begins: string, password: string): Promise<string[]> {
  const hash = parseForeignHash((await CHEAP[begins]?.('x')) ?? '');
  return hash?.texts(password) ?? [];
}

test('a format has the texts that PHP makes for its systems, the usual one first, and at most four', async (t) => {
  const met = new Set<number>();
  for (const [begins, hashOf] of Object.entries(CHEAP)) {
    const hash = await hashOf('x');
    met.add(FORMATS.findIndex(({ pattern }) => pattern.test(hash)));
    const [usual = 'sent', ...others] = SYSTEMS[begins] ?? [];
    for (const php of RECORDED.texts) {
      const texts = await textsOf(begins, php.sent);
      const shown = `${begins} of ${JSON.stringify(php.sent)}`;
      // phpBB normalises last, which php-texts.php cannot.
      const normal = {
        ...php,
        phpBB: php.phpBB.normalize('NFC'),
        phpBB30: php.phpBB30.normalize('NFC'),
        // What is left of WordPress's where it has nothing to trim.
        slashed: php.sent === php.trimmed ? php.wordPress : php.sent,
      };
      t.equal(texts[0], normal[usual], shown);
      for (const other of others) t.ok(texts.includes(normal[other]), `${shown}: ${other}`);
      t.ok(texts.length <= 4 && new Set(texts).size === texts.length, shown);
    }
    const composed = await textsOf(begins, 'pa\u0308ss');
    t.ok(composed.includes('p\u00e4ss'), `${begins}: a keyboard that decomposes`);
  }
  t.equal(met.size, FORMATS.length, 'every format has an example');
  for (const { sent, trimmed: php } of RECORDED.texts) t.equal(trimmed(sent), php, JSON.stringify(sent));
});

test('of a password with five texts, the first four are compared', async (t) => {
  const five = `pa\u0308ss\ufb01 "'"`;
  for (const begins of ['$2y$', '$argon2id$'])
    t.strictSame(await textsOf(begins, five), [
      five,
      `p\u00e4ss\ufb01 "'"`,
      `p\u00e4ssfi "'"`,
      `p\u00e4ss\ufb01 &quot;'&quot;`,
    ]);
});

test('a hash of each format and each of its texts opens at that try alone', async (t) => {
  const password = ` pa\u0308ss'"\\&<> `;
  for (const [begins, hashOf] of Object.entries(CHEAP)) {
    const texts = await textsOf(begins, password);
    for (const [at, text] of texts.entries()) {
      const stored = Buffer.from(await hashOf(text));
      t.equal(await hasher.verify(stored, password, at), true, `${begins}, text ${at}`);
      t.equal(await hasher.verify(stored, password, at + texts.length), true, 'and in the next turn');
      t.equal(await hasher.verify(stored, password, at + 1), texts.length === 1);
      t.equal(await hasher.verify(stored, `${password}x`, at), false);
    }
  }
});

test('hashes of PHP, as WordPress and phpBB make them, open within their tries', async (t) => {
  const { password } = RECORDED;
  const hashes: Record<string, string> = RECORDED.hashes;
  const tries = {
    'WordPress 6.8': 0,
    'bcrypt of the password': 0,
    'bcrypt of phpBB': 1,
    'argon2id of phpBB': 1,
    'argon2i of phpBB': 1,
  };
  t.strictSame(Object.keys(hashes), Object.keys(tries));
  for (const [name, at] of Object.entries(tries)) {
    const stored = Buffer.from(hashes[name] ?? '');
    t.equal(await hasher.verify(stored, password, at), true, name);
    t.equal(await hasher.verify(stored, password, 1 - at), false, name);
    t.equal(await hasher.verify(stored, password.replace('&', '+'), at), false, name);
  }
});

test('what a password becomes is no other password of its own at the first try', async (t) => {
  for (const [begins, hashOf] of Object.entries(CHEAP))
    for (const password of [`it's`, 'a & b']) {
      const [text = ''] = await textsOf(begins, password);
      if (text === password) continue;
      const stored = Buffer.from(await hashOf(text));
      t.equal(await hasher.verify(stored, password), true, begins);
      t.equal(await hasher.verify(stored, text), false, `${begins}: its own text is altered again`);
    }
});

test('the hash of a system that trims stays after a login with space around the password', async (t) => {
  for (const [begins, hashOf] of Object.entries(CHEAP)) {
    const stored = Buffer.from(await hashOf('x'));
    const trims = ['$wp$2y$', '$P$', '$H$'].includes(begins);
    for (const password of [' x', 'x\t', '\nx\v'])
      t.equal(hasher.isOutdated(stored, password), !trims, `${begins} after ${JSON.stringify(password)}`);
    for (const password of ['x', 'x y', 'x\u00a0', `it's & "x"`])
      t.equal(hasher.isOutdated(stored, password), true, `${begins} after ${JSON.stringify(password)}`);
  }
});

test('a round of phpass takes as many blocks, whatever text of the password is compared', async (t) => {
  const blocks = (text: string) => phpassBlocks(Buffer.byteLength(text));
  t.strictSame([0, 39, 40, 103, 104].map(phpassBlocks), [1, 1, 2, 2, 3]);
  t.equal(mostPhpassBlocks('correct horse'), 1);
  for (const begins of ['$P$', '$H$']) {
    const texts = await textsOf(begins, '"'.repeat(1024));
    t.ok(texts.every((text) => blocks(text) <= mostPhpassBlocks('"'.repeat(1024))));
  }
  t.equal(mostPhpassBlocks('"'.repeat(1024)), phpassBlocks(1024 * '&quot;'.length));
  await fc.assert(
    fc.asyncProperty(fc.string({ unit: 'binary', maxLength: 1024 }), async (password) => {
      for (const { texts } of FORMATS) {
        const all = texts(password);
        t.ok(all.length >= 1 && all.length <= 4);
      }
      const most = mostPhpassBlocks(password);
      for (const begins of ['$P$', '$H$'])
        for (const text of await textsOf(begins, password)) if (blocks(text) > most) t.fail(password);
    }),
    { numRuns: 200 },
  );
});
