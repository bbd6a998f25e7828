import { test } from 'tap';
import { rememberedTokens } from '../../../src/domain/sizing/remembered-tokens.ts';

const MIB = 1024 ** 2;

test('a replica remembers as many tokens as its memory limit leaves room for', (t) => {
  const needed = 640 * MIB;
  t.equal(rememberedTokens(0, needed), 100_000, 'without a limit');
  t.equal(rememberedTokens(640 * MIB, needed), 50_000, 'these are in what is needed');
  t.equal(rememberedTokens(765 * MIB, needed), 50_000, 'the rest is left to doctor');
  t.equal(rememberedTokens(766 * MIB, needed), 50_000 + Math.floor(MIB / 192));
  t.equal(rememberedTokens(4096 * MIB, needed), 1_000_000);
  t.end();
});
