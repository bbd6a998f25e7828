#!/usr/bin/env node
// `latchkey-test-issuer`: the test issuer as a process, for services in other languages. It prints the
// environment of the agent, a variable a line, and serves until SIGTERM.
import { parseArgs } from 'node:util';
import { testIssuer, type TestIssuer, type TokenTerms } from './test-issuer.ts';
import { serve } from './serve.ts';
import type { TestServiceToken, TestToken } from './test-token.ts';

const USAGE = `latchkey-test-issuer [--port 0] [--issuer ISSUER] [--audience latchkey]`;

/** The members of a body by the names that Latchkey's API would give them. */
const MEMBERS = {
  user_id: 'userId',
  token_type: 'tokenType',
  roles: 'roles',
  email_verified: 'emailVerified',
  scopes: 'scopes',
  acr: 'acr',
  auth_time: 'authTime',
  client_id: 'clientId',
  audience: 'audience',
  expires_in: 'expiresIn',
} as const;

/** A test has sent what this program does not take. Its message says what it takes. */
class Mistake extends Error {}

function tokenOf(body: Record<string, unknown>): (TestToken | TestServiceToken) & TokenTerms {
  const named = Object.entries(body).map(([name, value]): [string, unknown] => {
    if (!Object.hasOwn(MEMBERS, name))
      throw new Mistake(`${name} is unknown: use ${Object.keys(MEMBERS).join(', ')}`);
    return [MEMBERS[name as keyof typeof MEMBERS], value];
  });
  return Object.fromEntries(named) as unknown as TestToken;
}

/** What tests ask for, by path. */
const CONTROLS: Readonly<
  Record<string, (issuer: TestIssuer, body: Record<string, unknown>) => Promise<object>>
> = {
  async '/test/tokens'(issuer, body) {
    return { token: await issuer.token(tokenOf(body)) };
  },
  async '/test/revocations'(issuer, { token, user_id: userId, ...others }) {
    const isOne = (token === undefined) !== (userId === undefined);
    if (!isOne || Object.keys(others).length > 0) throw new Mistake('send either token or user_id');
    if (token !== undefined) await issuer.revoke(token as string);
    else await issuer.revokeUser(userId as number);
    return { msg: 'It has ended.' };
  },
  async '/test/outage'(issuer, { on, ...others }) {
    if (typeof on !== 'boolean' || Object.keys(others).length > 0)
      throw new Mistake('send on, true or false');
    await issuer.outage(on);
    return { msg: on ? 'Latchkey does not answer.' : 'Latchkey answers.' };
  },
};

async function control(issuer: TestIssuer, request: Request): Promise<Response> {
  const { pathname } = new URL(request.url);
  const answer = CONTROLS[pathname];
  if (!answer || request.method !== 'POST')
    return Response.json({ msg: `use POST ${Object.keys(CONTROLS).join(', ')}` }, { status: 404 });
  try {
    const body: unknown = await request.json().catch(() => null);
    if (typeof body !== 'object' || body === null || Array.isArray(body))
      throw new Mistake('send a JSON object');
    return Response.json(await answer(issuer, body as Record<string, unknown>));
  } catch (error) {
    if (!(error instanceof Mistake || error instanceof TypeError)) throw error;
    return Response.json({ msg: inTheirNames(error) }, { status: 400 });
  }
}

/** The issuer speaks of the members as a test in JavaScript names them. */
function inTheirNames(error: Error): string {
  if (error instanceof Mistake) return error.message;
  return Object.entries(MEMBERS).reduce(
    (text, [theirs, ours]) => text.replace(new RegExp(`\\b${ours}\\b`, 'g'), theirs),
    error.message,
  );
}

function fail(message: string): never {
  process.stderr.write(`latchkey-test-issuer: ${message}\n`);
  process.exit(1);
}

function readArguments(): { port: number; issuer: TestIssuer } {
  try {
    const text = { type: 'string' } as const;
    const options = {
      port: { ...text, default: '0' },
      issuer: text,
      audience: { ...text, default: 'latchkey' },
    };
    const { port, issuer, audience } = parseArgs({ options }).values;
    if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535) throw new Error('--port must be a port');
    return { port: Number(port), issuer: testIssuer({ issuer, audience }) };
  } catch (error) {
    fail(`${(error as Error).message}\n${USAGE}`);
  }
}

const { port, issuer } = readArguments();
const { options } = issuer;
const served = await serve((request) => {
  const isControl = new URL(request.url).pathname.startsWith('/test/');
  return isControl ? control(issuer, request) : options.fetch(request);
}, port).catch((error: unknown) => {
  const { code, name } = error as NodeJS.ErrnoException;
  return fail(`127.0.0.1:${port} cannot be listened at: ${code ?? name}`);
});
const environment = {
  LATCHKEY_URL: served.url,
  LATCHKEY_ISSUER: options.issuer,
  LATCHKEY_AUDIENCE: options.audience,
  LATCHKEY_CLIENT_ID: options.client.id,
  LATCHKEY_CLIENT_SECRET: options.client.secret,
};
process.stdout.write(
  Object.entries(environment)
    .map(([name, value]) => `${name}=${value}\n`)
    .join(''),
);
const end = () => void Promise.all([issuer.close(), served.stop()]).then(() => process.exit(0));
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, end);
