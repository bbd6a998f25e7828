import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { readOptions, readTokensOptions, type TokensOptions, type VerifierOptions } from '../src/options.ts';
import { unavailable } from '../src/verifier-error.ts';
import { ROOT } from '../../../test/support/documents.ts';
import { until } from '../../../test/support/until.ts';

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
    tokenCache: { size: 10_000, bytes: 33_554_432 },
    accept: ['access', 'llt'],
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
    tokenCache: { size: 5, bytes: 9 },
    accept: ['access'],
    longLived: { cacheSize: 0 },
  };
  t.match(readOptions(options), {
    issuer: GIVEN.issuer,
    url: 'http://latchkey.internal:3000',
    maxStaleness: 0,
    whenStale: 'refuse',
    clockTolerance: 0,
    tokenCache: { size: 5, bytes: 9 },
    accept: ['access'],
    cacheSize: 0,
  });
  t.end();
});

test('an address that could not be asked is refused, as the issuer and as url', (t) => {
  for (const text of [
    'https://ada:hunter2@x',
    'https://x/?hunter2',
    'https://x#hunter2',
    'https://x\nhunter2',
    ' https://x',
  ])
    for (const option of ['issuer', 'url'])
      t.throws(() => readOptions({ ...GIVEN, [option]: text }), {
        message: /^createVerifier: (?!.*hunter2)\w+ must be/,
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
    tokenCache: { size: 1.5, bytes: Infinity },
    accept: ['refresh'],
    longLived: { cacheSize: -1 },
    reader: { instance: 'orders 1', software: '', version: 7 },
    fetch: 'undici',
    onError: 'log',
    onUser: 'log',
    onRecovered: 'log',
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
    'audience is missing',
    'client.secret must be a text',
    'maxStaleness',
    'whenStale',
    'clockTolerance',
    'tokenCache.size',
    'tokenCache.bytes',
    'accept must be a list',
    'longLived.cacheSize',
    'reader.instance',
    'reader.software',
    'reader.version',
    'fetch',
    'onError',
    'onUser',
    'onRecovered',
  ])
    t.match(message, name);
  t.notMatch(message, '7777777');
  t.end();
});

test('a reader is named by its host, and by this package', (t) => {
  const { HOSTNAME } = process.env;
  t.teardown(() => {
    if (HOSTNAME === undefined) delete process.env.HOSTNAME;
    else process.env.HOSTNAME = HOSTNAME;
  });
  const { version } = JSON.parse(
    readFileSync(join(ROOT, 'packages/verifier/package.json'), 'utf8'),
  ) as Record<string, string>;
  const ours = { software: '@latchkey/verifier', version };
  process.env.HOSTNAME = 'büro.local';
  t.strictSame(readOptions(GIVEN).reader, { instance: 'b-ro.local', ...ours });
  delete process.env.HOSTNAME;
  t.strictSame(readOptions(GIVEN).reader, ours);
  const reader = { instance: 'orders-1', software: 'orders', version: '7' };
  t.strictSame(readOptions({ ...GIVEN, reader }).reader, reader);
  t.end();
});

test('missing options are a mistake, not a crash', (t) => {
  const all = 'issuer is missing; client.id is missing; client.secret is missing; audience is missing';
  for (const nothing of [{}, undefined, null])
    t.throws(() => readOptions(nothing as VerifierOptions), { message: `createVerifier: ${all}` });
  // Like an environment variable that is not set.
  const client = { id: 'orders', secret: undefined };
  t.throws(() => readOptions({ ...GIVEN, client }), { message: 'createVerifier: client.secret is missing' });
  t.end();
});

test('an unknown option is a mistake, and createTokens takes those of createVerifier', (t) => {
  const wrong = {
    ...GIVEN,
    maxStalenes: 5,
    toString: undefined,
    client: { ...GIVEN.client, secert: 'hunter2' },
    tokenCache: { bites: 9 },
    longLived: { cacheSize: 7, size: 7 },
  } as object;
  const names = ['client.secert', 'longLived.size', 'maxStalenes', 'toString', 'tokenCache.bites'];
  for (const [caller, read] of [
    ['createVerifier', () => readOptions(wrong as VerifierOptions)],
    ['createTokens', () => readTokensOptions(wrong as TokensOptions)],
  ] as const)
    try {
      read();
      t.fail('it was taken');
    } catch (error) {
      t.type(error, TypeError);
      const [, problems = ''] =
        /^(?:createVerifier|createTokens): (.*)$/.exec((error as Error).message) ?? [];
      t.strictSame(
        problems.split('; ').sort(),
        names.map((name) => `${name} is no option`),
      );
      t.ok((error as Error).message.startsWith(caller));
    }
  const every: Required<VerifierOptions> = {
    ...GIVEN,
    accept: ['llt'],
    url: 'https://latchkey.internal',
    maxStaleness: 5,
    whenStale: 'accept',
    clockTolerance: 1,
    tokenCache: { size: 1, bytes: 1 },
    longLived: { cacheSize: 1 },
    reader: { instance: 'orders-1', software: 'orders', version: '7' },
    fetch,
    onError: () => undefined,
    onUser: () => undefined,
    onRecovered: () => undefined,
  };
  t.match(readOptions(every), { audience: 'latchkey' });
  t.strictSame(readTokensOptions(every), {
    issuer: GIVEN.issuer,
    client: GIVEN.client,
    url: 'https://latchkey.internal',
    fetch,
  });
  t.end();
});

test('a client has either id and secret or an assertion', (t) => {
  const assertion = () => 'token';
  t.strictSame(readOptions({ ...GIVEN, client: { assertion } }).client, { assertion });
  const problems: [client: object, problem: string][] = [
    [{ assertion: 'token' }, 'client.assertion must be a function'],
    [{ id: 'orders', secret: 'secret', assertion }, 'client must be either id and secret, or assertion'],
    [{ id: 'orders', assertion }, 'client must be either id and secret, or assertion'],
  ];
  for (const [client, problem] of problems)
    t.throws(() => readOptions({ ...GIVEN, client } as unknown as VerifierOptions), {
      message: `createVerifier: ${problem}`,
    });
  for (const accept of [[], 'service', ['access', 'refresh']])
    t.throws(() => readOptions({ ...GIVEN, accept } as unknown as VerifierOptions), /accept must be a list/);
  t.end();
});

test('a service without onError gets warnings of the process', async (t) => {
  const heard: Error[] = [];
  const hear = (warning: Error) => heard.push(warning);
  process.on('warning', hear);
  t.teardown(() => process.off('warning', hear));
  readOptions({ ...GIVEN, onError: () => undefined }).onRecovered();
  const { onError, onRecovered } = readOptions(GIVEN);
  onError(unavailable('configuration', 'client.secret is wrong'));
  onRecovered();
  await until(() => heard.length > 1);
  const name = 'LatchkeyVerifier';
  t.match(heard, [
    { name, message: 'client.secret is wrong' },
    { name, message: 'the revocation feed is back' },
  ]);
  t.equal(heard.length, 2);
});
