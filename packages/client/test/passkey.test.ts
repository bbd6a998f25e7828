import { setImmediate } from 'node:timers/promises';
import { test, type Test } from 'tap';
import { LatchkeyError, type Client, type Session } from '../src/main.ts';
import { addPasskey, logInWithPasskey, offerPasskey, signalPasskeys } from '../src/passkey.ts';
import { aCredential, bufferOf, fakeBrowser } from './fake-browser.ts';

/** Milliseconds. */
const RENEWAL = 240_000;
/** All spellings of base64 differ for these bytes. */
const ODD = Buffer.from([0xfb, 0xef, 0xff, 0x00]);
const ODD_TEXT = '--__AA';
const SESSION: Session = {
  id: 1,
  user: { id: 7, username: 'ada', name: 'Ada', created_at: '2026-01-01T00:00:00.000Z', roles: [] },
};
const REQUEST = { challenge: ODD_TEXT, rpId: 'example.com', timeout: 300_000, userVerification: 'required' };
const CREATION = {
  challenge: ODD_TEXT,
  rp: { id: 'example.com', name: 'Example' },
  user: { id: ODD_TEXT, name: 'ada', displayName: 'Ada' },
  pubKeyCredParams: [{ type: 'public-key', alg: -7 }],
  excludeCredentials: [{ type: 'public-key', id: ODD_TEXT }],
};
const ACCEPTED = { rpId: 'example.com', userId: ODD_TEXT, allAcceptedCredentialIds: [ODD_TEXT] };
const LOGIN = {
  clientDataJSON: bufferOf(ODD),
  authenticatorData: bufferOf('data'),
  signature: bufferOf('signature'),
  userHandle: bufferOf('handle'),
};
const SENT_LOGIN = {
  id: ODD_TEXT,
  rawId: ODD_TEXT,
  type: 'public-key',
  clientExtensionResults: { credProps: { rk: true } },
  response: {
    clientDataJSON: ODD_TEXT,
    authenticatorData: textOf('data'),
    signature: textOf('signature'),
    userHandle: textOf('handle'),
  },
};

test('a login sends what the browser answered', async (t) => {
  const browser = fakeBrowser(t);
  const { client, sent } = aClient();
  const login = logInWithPasskey(client, { device: 'Phone' });
  const ceremony = await browser.shown(1);
  t.equal(ceremony.kind, 'get');
  t.equal(ceremony.mediation, 'optional');
  t.strictSame(bytes(ceremony.publicKey.challenge), ODD);
  t.match(ceremony.publicKey, { rpId: 'example.com', timeout: 300_000, userVerification: 'required' });
  ceremony.succeed(aCredential(LOGIN, ODD));
  t.equal(await login, SESSION);
  t.strictSame(sent.pop(), ['completeLogin', { passkey: SENT_LOGIN, device: 'Phone' }]);
  t.strictSame(browser.signals, []);

  const second = logInWithPasskey(client);
  (await browser.shown(2)).succeed(aCredential({ ...LOGIN, userHandle: null }, ODD));
  await second;
  t.match(sent.pop(), ['completeLogin', { passkey: { response: { userHandle: undefined } } }]);
});

test('a new passkey is made of the options, and confirmed', async (t) => {
  const browser = fakeBrowser(t);
  const { client, sent, answers } = aClient();
  answers['POST /api/user/factors/passkey/confirm'] = () => ({ id: 3, recovery_codes: ['A'] });
  const added = addPasskey(client, { name: 'Phone', current_password: 'secret' });
  const { kind, publicKey, succeed } = await browser.shown(1);
  t.equal(kind, 'create');
  t.strictSame(bytes(publicKey.challenge), ODD);
  const { user, excludeCredentials } = publicKey as {
    user: { id: unknown };
    excludeCredentials: { id: unknown }[];
  };
  t.strictSame(bytes(user.id), ODD);
  t.strictSame(bytes(excludeCredentials[0]?.id), ODD);
  t.match(publicKey, { rp: CREATION.rp, pubKeyCredParams: CREATION.pubKeyCredParams });
  const response = { clientDataJSON: bufferOf('client'), attestationObject: bufferOf(ODD) };
  succeed(aCredential({ ...response, getTransports: () => ['internal'] }, ODD));
  t.strictSame(await added, { id: 3, recovery_codes: ['A'] });
  await idle();
  t.strictSame(sent, [
    ['POST /api/user/factors/passkey', { current_password: 'secret' }],
    [
      'POST /api/user/factors/passkey/confirm',
      {
        name: 'Phone',
        passkey: {
          id: ODD_TEXT,
          rawId: ODD_TEXT,
          type: 'public-key',
          response: {
            clientDataJSON: textOf('client'),
            attestationObject: ODD_TEXT,
            transports: ['internal'],
          },
          clientExtensionResults: { credProps: { rk: true } },
        },
      },
    ],
    ['GET /api/user/factors', undefined],
  ]);
  t.strictSame(browser.signals, [['accepted', ACCEPTED]]);
});

test('one ceremony at a time: each waits for the end of the one before', async (t) => {
  const browser = fakeBrowser(t);
  const { client } = aClient();
  offerPasskey(client);
  await browser.shown(1);
  const [first, second, third] = [
    logInWithPasskey(client),
    addPasskey(client, NEW),
    logInWithPasskey(client),
  ];
  await t.rejects(first, { name: 'AbortError' });
  await t.rejects(second, { name: 'AbortError' });
  while (browser.begun.at(-1)?.mediation === 'conditional' || !browser.isShown()) await setImmediate();
  browser.begun.at(-1)?.succeed(aCredential(LOGIN));
  t.equal(await third, SESSION);

  const cancelled = logInWithPasskey(client);
  (await browser.shown(browser.begun.length + 1)).fail(new DOMException('no', 'NotAllowedError'));
  await t.rejects(cancelled, { name: 'NotAllowedError' });
});

test('an offer takes a new challenge every 4 minutes, and after a refusal', async (t) => {
  const passTime = fakeTime(t);
  const browser = fakeBrowser(t);
  const { client, sent, answers, log } = aClient();
  const errors: unknown[] = [];
  offerPasskey(client, { device: 'Phone', onError: (error) => errors.push(error) });
  t.equal((await browser.shown(1)).mediation, 'conditional');
  passTime(RENEWAL - 1);
  await idle();
  t.equal(browser.begun.length, 1);
  passTime(1);
  const second = await browser.shown(2);
  answers.completeLogin = () => refusal('invalid_passkey');
  second.succeed(aCredential(LOGIN));
  await browser.shown(3);
  t.match(errors, [{ code: 'invalid_passkey' }]);
  t.strictSame(browser.signals, []);

  // Neither an outage nor a browser that refuses makes a page ask in a loop.
  answers['POST /api/auth/passkey'] = () => refusal('unavailable');
  passTime(RENEWAL);
  await idle();
  const asked = sent.length;
  await idle();
  t.equal(sent.length, asked);
  delete answers['POST /api/auth/passkey'];
  passTime(RENEWAL);
  (await browser.shown(4)).fail(new DOMException('no', 'SecurityError'));
  await idle();
  t.equal(browser.begun.length, 4);
  passTime(RENEWAL);
  const last = await browser.shown(5);
  delete answers.completeLogin;
  last.succeed(aCredential(LOGIN));
  await idle();
  t.match(sent.pop(), ['completeLogin', { device: 'Phone' }]);
  passTime(RENEWAL);
  await idle();
  t.equal(browser.begun.length, 5, 'the offer has ended with the login');
  t.equal(errors.length, 1);
  t.equal(log.listeners.size, 0);
});

test('an offer ends with a session, with its function, and where there is no autofill', async (t) => {
  const passTime = fakeTime(t);
  const browser = fakeBrowser(t);
  const { client, sent, answers, log } = aClient();
  const endings = [
    () => {
      offerPasskey(client);
      return () => {
        log.open();
      };
    },
    () => offerPasskey(client),
  ];
  for (const [i, offer] of endings.entries()) {
    const end = offer();
    await browser.shown(i + 1);
    end();
    while (browser.isShown()) await setImmediate();
    passTime(RENEWAL);
    await idle();
    t.equal(browser.begun.length, i + 1);
    t.equal(log.listeners.size, 0);
    log.close();
  }
  answers['POST /api/auth/passkey'] = () => refusal('factors_disabled');
  offerPasskey(client);
  await idle();
  t.equal(log.listeners.size, 0, 'or Latchkey has no passkeys');
  for (const options of [{ hasAutofill: false }, { api: { isConditionalMediationAvailable: undefined } }]) {
    const other = fakeBrowser(t, options);
    const before = sent.length;
    offerPasskey(client);
    await idle();
    t.equal(other.begun.length, 0);
    t.equal(sent.length, before, 'nor is Latchkey asked');
  }
});

test('only an unknown passkey is told to the browser', async (t) => {
  const browser = fakeBrowser(t);
  const { client, answers } = aClient();
  for (const code of ['invalid_passkey', 'account_disabled', 'rate_limited', 'passkey_unknown']) {
    answers.completeLogin = () => refusal(code);
    const login = logInWithPasskey(client);
    (await browser.shown(browser.begun.length + 1)).succeed(aCredential(LOGIN, ODD));
    await t.rejects(login, { code });
  }
  t.strictSame(browser.signals, [['unknown', { rpId: 'example.com', credentialId: ODD_TEXT }]]);
});

test('a failed enrolment is followed by the accepted passkeys, and a wrong password by none', async (t) => {
  const browser = fakeBrowser(t);
  const { client, answers } = aClient();
  const made = aCredential({ clientDataJSON: bufferOf(''), attestationObject: bufferOf('') });
  answers['POST /api/user/factors/passkey/confirm'] = () => refusal('invalid_passkey');
  const refused = addPasskey(client, NEW);
  (await browser.shown(1)).succeed(made);
  await t.rejects(refused, { code: 'invalid_passkey' });
  const cancelled = addPasskey(client, NEW);
  (await browser.shown(2)).fail(new DOMException('no', 'NotAllowedError'));
  await t.rejects(cancelled, { name: 'NotAllowedError' });
  await idle();
  answers['POST /api/user/factors/passkey/confirm'] = () => refusal('no_answer');
  const undecided = addPasskey(client, NEW);
  (await browser.shown(3)).succeed(made);
  await t.rejects(undecided, { code: 'no_answer' });
  await idle();
  t.strictSame(browser.signals, [
    ['accepted', ACCEPTED],
    ['accepted', ACCEPTED],
  ]);
  answers['POST /api/user/factors/passkey'] = () => refusal('wrong_password');
  await t.rejects(addPasskey(client, NEW), { code: 'wrong_password' });
  await idle();
  t.equal(browser.signals.length, 2);
});

test('signals reject never', async (t) => {
  const { client, answers } = aClient();
  const throws = () => {
    throw new TypeError('no');
  };
  for (const signal of [undefined, throws, () => Promise.reject(new Error('no'))]) {
    const browser = fakeBrowser(t, { api: { signalAllAcceptedCredentials: signal } });
    await t.resolves(signalPasskeys(client));
    t.strictSame(browser.signals, []);
  }
  const browser = fakeBrowser(t);
  answers['GET /api/user/factors'] = () => ({ factors: [] });
  await signalPasskeys(client);
  answers['GET /api/user/factors'] = () => refusal('unavailable');
  await signalPasskeys(client);
  t.strictSame(browser.signals, [], 'without a list, no passkey is gone');
});

const NEW = { name: 'Phone', current_password: 'secret' };

/** A client whose requests are answered at once. @returns also what it was asked for */
function aClient() {
  const sent: [what: string, body: unknown][] = [];
  const answers: Record<string, (() => unknown) | undefined> = {};
  const usual: Record<string, unknown> = {
    'POST /api/auth/passkey': REQUEST,
    'POST /api/user/factors/passkey': CREATION,
    'GET /api/user/factors': { factors: [], accepted_passkeys: ACCEPTED },
    completeLogin: SESSION,
  };
  const answer = (what: string, body: unknown) => {
    sent.push([what, body]);
    return Promise.resolve().then(answers[what] ?? (() => usual[what]));
  };
  const listeners = new Set<() => void>();
  const log = {
    listeners,
    session: null as Session | null,
    open() {
      log.session = SESSION;
      for (const listener of listeners) listener();
    },
    close() {
      log.session = null;
    },
  };
  const client = {
    get session() {
      return log.session;
    },
    onChange(listener: () => void) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    request: (method: string, path: string, body?: unknown) => answer(`${method} ${path}`, body),
    completeLogin: (body: unknown) => answer('completeLogin', body),
  } as unknown as Client;
  return { client, sent, answers, log };
}

function refusal(code: string): never {
  throw new LatchkeyError(code, code);
}

/** @returns what lets time pass for timers that are set from now on */
function fakeTime(t: Test): (ms: number) => void {
  const { setTimeout, clearTimeout } = globalThis;
  const timers = new Map<number, { at: number; run: () => void }>();
  let [passed, id] = [0, 0];
  Object.assign(globalThis, {
    setTimeout(run: () => void, ms: number) {
      timers.set(++id, { at: passed + ms, run });
      return id;
    },
    clearTimeout: (timer: number) => timers.delete(timer),
  });
  t.teardown(() => Object.assign(globalThis, { setTimeout, clearTimeout }));
  return (ms) => {
    passed += ms;
    for (const [timer, { at, run }] of timers)
      if (at <= passed) {
        timers.delete(timer);
        run();
      }
  };
}

/** Until nothing is left to do. */
async function idle(): Promise<void> {
  for (let i = 0; i < 20; i++) await setImmediate();
}

function bytes(source: unknown): Buffer {
  return Buffer.from(source as Uint8Array);
}

function textOf(text: string): string {
  return Buffer.from(text).toString('base64url');
}
