import { test } from 'tap';
import { parsePosition, positionText } from '../../../src/domain/feed/position.ts';

test('a position survives formatting and parsing', (t) => {
  const position = { epoch: '0b9e2c1e-8f6c-4a5e-9c7d-1f2e3d4c5b6a', seq: Number.MAX_SAFE_INTEGER };
  t.strictSame(parsePosition(positionText(position)), position);
  t.strictSame(parsePosition('a.0'), { epoch: 'a', seq: 0 });
  t.end();
});

test('any other text is not a position', (t) => {
  const texts = [
    '',
    'a',
    'a.',
    '.1',
    'a.-1',
    'a.1e3',
    'a.01',
    'a.1.2',
    'a b.1',
    'a.9007199254740992',
    'a.1\n',
  ];
  for (const text of [...texts, `${'a'.repeat(65)}.1`])
    t.equal(parsePosition(text), null, JSON.stringify(text));
  t.end();
});
