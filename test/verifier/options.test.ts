import { test } from 'tap';
import { readOptions, type VerifierOptions } from '../../src/verifier/options.ts';

const GIVEN: VerifierOptions = {
  issuer: 'https://id.example.com',
  audience: 'latchkey',
  client: { id: 'orders', secret: 'secret' },
};

test('three options are enough', (t) => {
  t.match(readOptions(GIVEN), {
    ...GIVEN,
    url: 'https://id.example.com',
    maxStaleness: 120,
    whenStale: 'introspect',
    clockTolerance: 5,
    acceptLongLived: true,
    cacheSize: 10_000,
  });
  t.end();
});

test('uses the given options', (t) => {
  const options: VerifierOptions = {
    ...GIVEN,
    url: 'http://latchkey.internal:3000/',
    maxStaleness: 0,
    whenStale: 'refuse',
    clockTolerance: 0,
    longLived: { accept: false, cacheSize: 0 },
  };
  t.match(readOptions(options), {
    issuer: GIVEN.issuer,
    url: 'http://latchkey.internal:3000',
    maxStaleness: 0,
    whenStale: 'refuse',
    clockTolerance: 0,
    acceptLongLived: false,
    cacheSize: 0,
  });
  t.end();
});

test('reports all mistakes at once, without secrets', (t) => {
  const wrong = {
    issuer: 'id.example.com',
    audience: '',
    client: { id: 'orders', secret: 7_777_777 },
    url: 'redis://id.example.com',
    maxStaleness: '60',
    whenStale: 'ask',
    clockTolerance: 31,
    longLived: { cacheSize: -1 },
  };
  let message = '';
  try {
    readOptions(wrong as unknown as VerifierOptions);
  } catch (error) {
    t.type(error, TypeError);
    ({ message } = error as Error);
  }
  for (const name of [
    'issuer',
    'url',
    'audience',
    'client',
    'maxStaleness',
    'whenStale',
    'clockTolerance',
    'cacheSize',
  ])
    t.match(message, name);
  t.notMatch(message, '7777777');
  t.end();
});

test('missing options are a mistake, not a crash', (t) => {
  t.throws(() => readOptions({} as unknown as VerifierOptions), /issuer.*audience.*client/);
  t.throws(() => readOptions({ ...GIVEN, client: undefined } as unknown as VerifierOptions), /client/);
  t.end();
});
