import { test, type Test } from 'tap';
import { makeServiceCredentials } from '../src/service-credentials.ts';
import { unavailable, type VerifierError } from '../src/verifier-error.ts';
import { aClock } from '../../../test/support/clock.ts';
import { until } from '../../../test/support/until.ts';

/** A token endpoint that numbers its tokens. They are good for as many seconds as the test says. */
function aClient(t: Test, lifetime: number) {
  const clock = aClock();
  const asked: string[] = [];
  const renewals: (VerifierError | null)[] = [];
  const world = {
    assertion: (): unknown => Promise.resolve('assertion'),
    answer: (): object => ({
      access_token: `t${asked.length}`,
      token_type: 'Bearer',
      expires_in: lifetime,
    }),
  };
  const credentials = makeServiceCredentials({
    assertion: () => world.assertion(),
    request: (assertion) => {
      asked.push(assertion);
      return Promise.resolve().then(() => ({ ...world.answer() }));
    },
    clock,
    onRenew: (failure) => renewals.push(failure),
    times: { patience: 20, pause: 5 },
  });
  t.teardown(() => {
    credentials.close();
  });
  return { clock, asked, renewals, world, credentials };
}

const REFUSED = unavailable('configuration', 'client.assertion was refused');
const refuse = (): never => {
  throw REFUSED;
};

test('gets one token for all requests, and the next when it has expired', async (t) => {
  const { clock, asked, credentials } = aClient(t, 300);
  const both = [1, 2].map(async () => credentials.authorization());
  t.strictSame(await Promise.all(both), ['Bearer t1', 'Bearer t1']);
  clock.pass(299_000);
  t.equal(await credentials.authorization(), 'Bearer t1');
  clock.pass(1000);
  t.equal(await credentials.authorization(), 'Bearer t2');
  t.equal(asked.length, 2);
});

test('reads the assertion anew each time, without the white space around it', async (t) => {
  const { clock, asked, world, credentials } = aClient(t, 300);
  for (const assertion of ['first\n', Promise.resolve('second'), ' third']) {
    world.assertion = () => assertion;
    await credentials.authorization();
    clock.pass(300_000);
  }
  t.strictSame(asked, ['first', 'second', 'third']);
});

test('renews it before it expires, without being asked', async (t) => {
  const { asked, renewals, credentials } = aClient(t, 0.03);
  // The clock stands still, so no token expires.
  await credentials.authorization();
  await until(() => asked.length >= 3);
  t.strictSame(renewals.slice(0, 1), [null]);
  t.not(await credentials.authorization(), 'Bearer t1');
});

test('while no new token is given, the present one serves until it expires', async (t) => {
  const failures: [
    name: string,
    fail: (world: ReturnType<typeof aClient>['world']) => void,
    failure: { message: string; reason?: string },
  ][] = [
    ['refused', (world) => void (world.answer = refuse), REFUSED],
    [
      'no assertion',
      (world) =>
        void (world.assertion = () => {
          throw Object.assign(new Error('/var/run/secret'), { code: 'ENOENT' });
        }),
      { reason: 'fault', message: 'client.assertion failed: ENOENT' },
    ],
    [
      'away',
      (world) => void (world.answer = () => ({})),
      { reason: 'unexpected_answer', message: 'the token endpoint returned a malformed answer' },
    ],
  ];
  for (const [name, fail, failure] of failures) {
    const { clock, renewals, world, credentials } = aClient(t, 0.03);
    await credentials.authorization();
    const { assertion, answer } = world;
    fail(world);
    await until(() => renewals.length >= 2);
    t.match(renewals, [failure, failure], `${name}: tried again and again`);
    t.equal(await credentials.authorization(), 'Bearer t1', name);
    clock.pass(30);
    await t.rejects(Promise.resolve(credentials.authorization()), failure, `${name}, and expired`);
    Object.assign(world, { assertion, answer });
    t.match(await credentials.authorization(), /^Bearer t/, `${name}, and works again`);
  }
});

test('an assertion that is none, or does not come, is a failure that quotes nothing', async (t) => {
  const { world, asked, credentials } = aClient(t, 300);
  const failures: [assertion: () => unknown, reason: string, message: RegExp][] = [
    [() => undefined, 'configuration', /returned no text/],
    [() => ' \n', 'configuration', /returned no text/],
    [() => ({ secret: 'assertion' }), 'configuration', /returned no text/],
    [() => Promise.reject(new TypeError('secret')), 'fault', /failed: TypeError$/],
    [() => new Promise(() => undefined), 'fault', /failed: TimeoutError$/],
  ];
  for (const [assertion, reason, message] of failures) {
    world.assertion = assertion;
    await t.rejects(Promise.resolve(credentials.authorization()), {
      code: 'unavailable',
      option: 'client',
      reason,
      message,
    });
  }
  t.strictSame(asked, []);
});

test('takes no answer of another shape', async (t) => {
  const { world, credentials } = aClient(t, 300);
  const good = { access_token: 'a.b-c', token_type: 'bearer', expires_in: 60 };
  for (const wrong of [
    { access_token: undefined },
    { access_token: 'a\r\nx: y' },
    { token_type: 'DPoP' },
    { expires_in: '60' },
    { expires_in: 0 },
  ]) {
    world.answer = () => ({ ...good, ...wrong });
    await t.rejects(Promise.resolve(credentials.authorization()), {
      code: 'unavailable',
      reason: 'unexpected_answer',
    });
  }
  world.answer = () => good;
  t.equal(await credentials.authorization(), 'Bearer a.b-c');
});

test('a refused token is replaced, once for all requests that it served', async (t) => {
  const { asked, credentials } = aClient(t, 300);
  const first = await credentials.authorization();
  t.ok(credentials.refused(first));
  t.equal(await credentials.authorization(), 'Bearer t2');
  t.ok(credentials.refused(first));
  t.equal(await credentials.authorization(), 'Bearer t2');
  t.equal(asked.length, 2);
});

test('renews nothing after close', async (t) => {
  const { asked, credentials } = aClient(t, 0.03);
  const last = Promise.resolve(credentials.authorization());
  credentials.close();
  await last;
  await new Promise((resolve) => setTimeout(resolve, 60));
  t.equal(asked.length, 1);
});
