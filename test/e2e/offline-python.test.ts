import { createPublicKey } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { claimsOf, headerOf } from '../support/client.ts';
import { readDocument } from '../support/documents.ts';
import { testFolder } from '../support/folder.ts';
import { freePort } from '../support/free-port.ts';
import { aSecret, KEYS } from '../support/keys.ts';
import { readBlocks } from '../support/markdown.ts';
import { signUpOver } from '../support/over-http.ts';
import { testDatabase } from '../support/postgres.ts';
import { modulesMissing, python } from '../support/python.ts';
import { ready, startService } from '../support/service.ts';
import { forge } from '../support/tokens.ts';
import '../support/watch-leaks.ts';

/** The Python code of docs/integrating.md. */
const [CODE = ''] = readBlocks(readDocument('docs/integrating.md'))
  .filter(({ language }) => language === 'python')
  .map(({ text }) => text);

/** Prints for each token on standard input the user whom it names, or why it is refused. */
const RUNNER = `
import sys
from offline import verify

for token in sys.stdin.read().split():
    try:
        print(verify(token)["sub"])
    except Exception as error:
        print(type(error).__name__)
`;

/** Runs steps with a key server of its own: what it answers, seconds after the step before, and the token. */
const STEPS = `
import json, sys, threading, types
from http.server import BaseHTTPRequestHandler, HTTPServer
import offline

now = 0.0
step = {}
requests = 0
meanwhile = []
offline.time = types.SimpleNamespace(monotonic=lambda: now)


def outcome(token):
    try:
        return offline.verify(token)["sub"]
    except Exception as error:
        return "OSError" if isinstance(error, OSError) else type(error).__name__


class KeyServer(BaseHTTPRequestHandler):
    def do_GET(self):
        global requests
        requests += 1
        if "meanwhile" in step:
            meanwhile.append(outcome(step["meanwhile"]))
        self.send_response(step["status"])
        self.end_headers()
        self.wfile.write(step["body"].encode())

    def log_message(self, *_):
        pass


server = HTTPServer(("localhost", int(sys.argv[1])), KeyServer)
threading.Thread(target=server.serve_forever, daemon=True).start()
outcomes = []
for step in json.load(sys.stdin):
    now += step["seconds"]
    requests = 0
    outcomes.append([outcome(step["token"]), requests, *meanwhile])
    meanwhile.clear()
print(json.dumps(outcomes))
`;

/** What PyJWT accepts without the checks of our code. */
const PLAIN = `
import sys, jwt
issuer, algorithm = sys.argv[1:]
token = sys.stdin.read()
key = jwt.PyJWKClient(issuer + "/.well-known/jwks.json").get_signing_key_from_jwt(token).key
print(jwt.decode(token, key, algorithms=[algorithm], audience="latchkey", issuer=issuer)["sub"])
`;

const skip = modulesMissing('jwt', 'cryptography');

for (const algorithm of ['ES256', 'EdDSA', 'RS256'] as const) {
  test(`the Python code of docs/integrating.md, with ${algorithm}`, { skip }, async (t) => {
    const { issuer, pem } = await aService(t, algorithm);
    const verify = aProgram(t, CODE, issuer);
    const { access_token: access, refresh_token: refresh, user } = await signUpOver(issuer);
    const llt = await aLongLivedToken(issuer, access);
    const [header, claims] = [headerOf(access), claimsOf(access)];
    const publicPem = createPublicKey(pem).export({ type: 'spki', format: 'pem' }).toString();
    const now = Math.floor(Date.now() / 1000);

    const cases: [name: string, token: string, outcome: string | RegExp][] = [
      ['an access token', access, String(user.id)],
      ['the same, signed by the test', forge(header, claims, pem), String(user.id)],
      [
        'a token that expired within the leeway',
        forge(header, { ...claims, exp: now - 1 }, pem),
        String(user.id),
      ],
      ['a long-lived token', llt, 'InvalidTokenError'],
      ['an expired token', forge(header, { ...claims, exp: now - 60 }, pem), 'ExpiredSignatureError'],
      ['a token without exp', forge(header, { ...claims, exp: undefined }, pem), 'MissingRequiredClaimError'],
      ['another audience', forge(header, { ...claims, aud: 'orders' }, pem), 'InvalidAudienceError'],
      [
        'another issuer',
        forge(header, { ...claims, iss: 'https://evil.example' }, pem),
        'InvalidIssuerError',
      ],
      ['another type', forge({ ...header, typ: 'JWT' }, claims, pem), 'InvalidTokenError'],
      ['a refresh token', refresh, 'InvalidTokenError'],
      ['alg none', forge({ ...header, alg: 'none' }, claims), 'InvalidAlgorithmError'],
      [
        'HS256 with the public key',
        forge({ ...header, alg: 'HS256' }, claims, publicPem),
        'InvalidAlgorithmError',
      ],
      ['another key under this id', forge(header, claims, KEYS[algorithm]()), 'InvalidSignatureError'],
      ['an unknown key', forge({ ...header, kid: 'other' }, claims, pem), 'InvalidTokenError'],
      ['no token', 'nonsense', 'DecodeError'],
    ];
    const outcomes = verify(cases.map(([, token]) => token));
    for (const [i, [name, , outcome]] of cases.entries()) t.equal(outcomes[i], outcome, name);

    // The reason for this code: the plain call takes a long-lived token, which has no exp.
    const plain = python(['-c', PLAIN, issuer, algorithm], { input: llt });
    t.equal(plain.stdout.trim(), String(user.id), plain.stderr);
    // Each of the two checks is enough to refuse it.
    const withoutType = planted(CODE, 'header.get("typ") != "at+jwt"', 'False');
    const withoutExp = planted(CODE, ', "exp"]', ']');
    t.strictSame(aProgram(t, withoutType, issuer)([llt]), ['MissingRequiredClaimError']);
    t.strictSame(aProgram(t, withoutExp, issuer)([llt]), ['InvalidTokenError']);
    t.strictSame(aProgram(t, planted(withoutType, ', "exp"]', ']'), issuer)([llt]), [String(user.id)]);
  });
}

test(
  'while Latchkey is away, the keys from before stay good, and without keys it is no refusal',
  { skip },
  async (t) => {
    const { issuer, stop } = await aService(t, 'ES256');
    const { access_token: access, user } = await signUpOver(issuer);
    const program = aProgram(t, planted(CODE, 'age > 300', 'age > 0'), issuer);
    t.strictSame(program([access]), [String(user.id)]);
    // The runner waits for its next line while the service stops.
    const steps = `${RUNNER.replace('sys.stdin.read().split()', '[sys.argv[1]]')}
import signal, os
os.kill(int(sys.argv[2]), signal.SIGKILL)
import urllib.request, urllib.error
while True:
    try:
        urllib.request.urlopen(sys.argv[3] + "/.well-known/jwks.json", timeout=5)
    except OSError:
        break
print(verify(sys.argv[1])["sub"])
`;
    const folder = aFolder(t, planted(CODE, 'age > 300', 'age > 0'), issuer);
    const { stdout, stderr } = python(['-c', steps, access, String(stop.pid), issuer], { modules: folder });
    t.strictSame(stdout.trim().split('\n'), [String(user.id), String(user.id)], stderr);
    t.strictSame(program([access]), ['OSError'], '503, not 401');
  },
);

interface Step {
  status: number;
  body: string;
  seconds: number;
  token: string;
  /** A token that another thread verifies before the server answers. */
  meanwhile?: string;
}

test('a key server that gives no keys is an outage', { skip }, async (t) => {
  const { run, good, unknown, keysAnswer } = await aKeyServer(t);
  const problem = { status: 503, body: '{"code":"unavailable"}' };
  const html = { status: 200, body: '<!doctype html>' };
  const others = ['{}', '[]', '{"keys":[]}', '{"keys":[{"kty":"AKP","kid":"a","alg":"ML-DSA-44"}]}'];
  for (const answer of [problem, html, ...others.map((body) => ({ status: 200, body }))])
    t.strictSame(
      run([
        { ...answer, seconds: 0, token: good },
        { ...answer, seconds: 5, token: good },
        { ...answer, seconds: 6, token: good },
        { ...keysAnswer, seconds: 11, token: good },
        { ...answer, seconds: 11, token: unknown },
        { ...answer, seconds: 5, token: unknown },
        { ...answer, seconds: 0, token: good },
        { ...answer, seconds: 301, token: good },
        { ...keysAnswer, seconds: 11, token: unknown },
        { ...keysAnswer, seconds: 5, token: unknown },
      ]),
      [
        ['OSError', 1],
        ['OSError', 0],
        ['OSError', 1],
        ['7', 1],
        ['OSError', 1],
        ['OSError', 0],
        ['7', 0],
        ['7', 1],
        ['InvalidTokenError', 1],
        ['InvalidTokenError', 0],
      ],
      answer.body,
    );
});

test('while one thread asks for the keys, another does not refuse a token', { skip }, async (t) => {
  const { run, good, unknown, keysAnswer } = await aKeyServer(t);
  t.strictSame(
    run([
      { ...keysAnswer, seconds: 0, token: good, meanwhile: good },
      { ...keysAnswer, seconds: 301, token: good, meanwhile: unknown },
      { ...keysAnswer, seconds: 301, token: good, meanwhile: good },
    ]),
    [
      ['7', 1, 'OSError'],
      ['7', 1, 'OSError'],
      ['7', 1, '7'],
    ],
  );
});

test('a kind of key that PyJWT does not know is skipped', { skip }, async (t) => {
  const { run, good, keysAnswer, jwk } = await aKeyServer(t);
  const strange = [
    { kty: 'AKP', kid: 'a', alg: 'ML-DSA-44', pub: 'AA' },
    { kty: 'EC', kid: 'b', alg: 'ES999', crv: 'P-999', x: 'AA', y: 'AA' },
  ];
  const body = JSON.stringify({ keys: [...strange, jwk] });
  t.strictSame(run([{ ...keysAnswer, body, seconds: 0, token: good }]), [['7', 1]]);
});

/** The code with a key server whose answers the test chooses, a good token, and one with an unknown key. */
async function aKeyServer(t: Test) {
  const port = String(await freePort());
  const issuer = `http://localhost:${port}`;
  const modules = aFolder(t, CODE, issuer);
  const pem = KEYS.ES256();
  const jwk = { ...createPublicKey(pem).export({ format: 'jwk' }), kid: 'one', alg: 'ES256' };
  const header = { alg: 'ES256', typ: 'at+jwt', kid: 'one' };
  const claims = { iss: issuer, aud: 'latchkey', sub: '7', exp: Math.floor(Date.now() / 1000) + 600 };
  return {
    jwk,
    keysAnswer: { status: 200, body: JSON.stringify({ keys: [jwk] }) },
    good: forge(header, claims, pem),
    unknown: forge({ ...header, kid: 'two' }, claims, pem),
    run: (steps: Step[]): unknown => {
      const { stdout, stderr } = python(['-c', STEPS, port], { input: JSON.stringify(steps), modules });
      if (stdout === '') throw new Error(stderr);
      return JSON.parse(stdout);
    },
  };
}

/** A service with a key that the test knows. */
async function aService(t: Test, algorithm: keyof typeof KEYS) {
  const folder = testFolder(t);
  const pem = KEYS[algorithm]();
  writeFileSync(join(folder, '0001.pem'), pem);
  const { url: DATABASE_URL } = await testDatabase(t);
  const port = await freePort();
  const issuer = `http://localhost:${port}`;
  const service = await startService(t, {
    ...{ DATABASE_URL, SIGNING_KEYS_DIR: folder, KEY_PUBLISH_LEAD: '0' },
    ...{ REFRESH_TOKEN_SECRET: aSecret(), ISSUER: issuer, PORT: String(port) },
  });
  await ready(service);
  return { issuer, pem, stop: service.process };
}

function aFolder(t: Test, code: string, issuer: string): string {
  const folder = testFolder(t);
  writeFileSync(join(folder, 'offline.py'), planted(code, 'http://localhost:3000', issuer));
  return folder;
}

/** @returns a function that runs the code on tokens. */
function aProgram(t: Test, code: string, issuer: string) {
  const modules = aFolder(t, code, issuer);
  return (tokens: string[]): string[] => {
    const { status, stdout, stderr } = python(['-c', RUNNER], { input: tokens.join('\n'), modules });
    if (status !== 0) throw new Error(stderr);
    return stdout.trim().split('\n');
  };
}

async function aLongLivedToken(url: string, access: string): Promise<string> {
  const response = await fetch(`${url}/api/auth/llt`, {
    method: 'POST',
    headers: { authorization: `Bearer ${access}`, 'content-type': 'application/json' },
    body: JSON.stringify({ device: 'Kitchen tablet' }),
  });
  return ((await response.json()) as { longlived_token: string }).longlived_token;
}

function planted(text: string, find: string, replace: string): string {
  if (text.split(find).length !== 2) throw new Error(`not exactly once in the code: ${find}`);
  return text.replace(find, replace);
}
