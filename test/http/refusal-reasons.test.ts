import { readFileSync } from 'node:fs';
import { test, type Test } from 'tap';
import {
  LOGIN_REFUSALS,
  REFUSAL_REASONS,
  SESSION_REFUSALS,
  TOKEN_REFUSALS,
  type BearerRefusal,
  type CredentialRefusal,
} from '../../src/domain/refusal-reasons.ts';
import { JWT_BEARER } from '../../src/http/auth/token.ts';
import { buildTestApp, type TestApp } from '../support/app.ts';
import { exchange } from '../support/audiences.ts';
import { anAccount, call, claimsOf, headerOf, signUp, verify } from '../support/client.ts';
import { valueOf } from '../support/exposition.ts';
import { logLines } from '../support/log-lines.ts';
import { KEYS } from '../support/keys.ts';
import { codeOf, readTable } from '../support/markdown.ts';
import { refused, refusedForOAuth } from '../support/problem.ts';
import { redisMissing } from '../support/redis.ts';
import { aServiceThatRefuses } from '../support/refused-tokens.ts';
import {
  aRegisteredService,
  basic,
  introspect,
  revoke,
  withRegistry,
} from '../support/registered-service.ts';
import { askServiceToken } from '../support/service-tokens.ts';
import { sql } from '../support/sql.ts';
import { forge } from '../support/tokens.ts';
import '../support/watch-leaks.ts';

const REASONS = [...TOKEN_REFUSALS, ...SESSION_REFUSALS];

/** The last line of the log about a request. */
function lastLine(target: TestApp): Record<string, unknown> {
  return logLines(target.log()).findLast(({ msg }) => msg === 'request') ?? {};
}

async function counted(target: TestApp, labels: Record<string, string>): Promise<number> {
  return valueOf(await target.composition.ops.metrics(), 'latchkey_errors_total', labels);
}

test('docs/errors.md explains each reason, and the verifier has those of a token too', (t) => {
  const rows = readTable(readFileSync('docs/errors.md', 'utf8'), /^\| *code *\| *reason *\|/i);
  const listed = new Map<string, string[]>();
  let codes: string[] = [];
  for (const [code = '', reason = ''] of rows) {
    if (code !== '') codes = codeOf(code);
    for (const each of codes) listed.set(each, [...(listed.get(each) ?? []), ...codeOf(reason)]);
  }
  t.strictSame(Object.fromEntries(listed), REFUSAL_REASONS);
  const ofVerifier = readTable(
    readFileSync('packages/verifier/README.md', 'utf8'),
    /^\| *`code` *\| *`reason` *\|/i,
  ).map(([, reason = '']) => codeOf(reason)[0]);
  t.strictSame(
    [...TOKEN_REFUSALS, 'revoked'].filter((reason) => !ofVerifier.includes(reason)),
    [],
  );
  t.end();
});

test(
  'the reason why a token is refused is logged, counted, and answered',
  { skip: redisMissing },
  async (t) => {
    const { target, tokens, good, gateway } = await aServiceThatRefuses(t, { LOG_REQUESTS: 'all' });
    const isOurs = (reason: BearerRefusal) => (SESSION_REFUSALS as readonly string[]).includes(reason);
    for (const reason of REASONS) {
      const before = await counted(target, { code: 'invalid_token', reason });
      const response = await verify(target, await tokens[reason]());
      refused(t, response, 401, 'invalid_token');
      t.match(response.json(), { reason });
      const line = lastLine(target);
      t.match(line, { code: 'invalid_token', reason });
      t.equal(
        Number.isInteger(line.userId) && Number.isInteger(line.tokenId),
        isOurs(reason),
        `${reason}: whose`,
      );
      t.equal(await counted(target, { code: 'invalid_token', reason }), before + 1);

      const subject = await exchange(target, await tokens[reason](), { by: gateway });
      t.match(subject.json(), { code: 'invalid_subject_token', reason });
      t.match(lastLine(target), { code: 'invalid_subject_token', reason });

      const answer = await introspect(target, gateway, await tokens[reason]());
      t.strictSame(answer.json(), { active: false }, 'a service learns no reason');
      t.match(lastLine(target), { status: 200, reason });
    }
    const header = headerOf(good.access_token);
    const claims = claimsOf(good.access_token);
    const odd: [reason: BearerRefusal, header: Record<string, unknown>, claims: object][] = [
      ['issuer', { ...header, x5t: 'x' }, { ...claims, iss: 'https://other.example' }],
      ['malformed', { ...header, x5t: 'x' }, claims],
      ['type', { ...header, typ: 'JWT' }, claims],
    ];
    for (const [reason, ...parts] of odd) {
      const response = await verify(target, forge(...parts, KEYS.ES256()));
      t.match(response.json(), { reason }, 'a token with another header');
    }
    await revoke(target, gateway, 'x');
    t.match(lastLine(target), { status: 200, reason: 'malformed' });
  },
);

test('the reason why a service is refused is logged and counted', async (t) => {
  const target = await buildTestApp(t);
  const client = await aRegisteredService(target.databaseUrl, 'billing', ['revoke']);
  const disabled = await aRegisteredService(target.databaseUrl, 'disabled', ['introspect']);
  await withRegistry(target.databaseUrl, (registry) => registry.disable('disabled'));
  const attempts: Record<Exclude<CredentialRefusal, 'assertion' | 'client_id'>, Record<string, string>> = {
    missing: {},
    malformed: { authorization: 'Basic %' },
    unknown: basic({ ...client, serviceId: 'lkc_other' }),
    secret: basic({ ...client, secret: 'lks_other' }),
    disabled: basic(disabled),
  };
  const ask = (headers: Record<string, string>) =>
    call(target, 'POST /api/auth/introspect', {
      headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
      payload: 'token=x',
    });
  for (const [reason, headers] of Object.entries(attempts)) {
    t.match((await ask(headers)).json(), { code: 'invalid_client', reason });
    const known = { secret: client.serviceId, disabled: disabled.serviceId }[reason];
    t.match(lastLine(target), { code: 'invalid_client', reason, clientId: known });
    t.equal(await counted(target, { code: 'invalid_client', reason }), 1);
  }
  t.match((await ask(basic(client))).json(), { code: 'right_missing', reason: 'introspect' });
  t.match(lastLine(target), { code: 'right_missing', reason: 'introspect' });
});

test('the reason why a login fails is in the log alone', async (t) => {
  const target = await buildTestApp(t);
  const account = anAccount();
  const { user } = await signUp(target, account);
  const logIn = (username: string, password: string) =>
    call(target, 'POST /api/auth', { payload: { username, password } });
  const attempts: Record<(typeof LOGIN_REFUSALS)[number], () => ReturnType<typeof logIn>> = {
    unknown: () => logIn('no-such-name', account.password),
    password: () => logIn(account.username, 'a wrong one'),
    async disabled() {
      await sql(target.databaseUrl, 'UPDATE users SET disabled_at = now() WHERE id = $1', [user.id]);
      return logIn(account.username, account.password);
    },
  };
  for (const reason of LOGIN_REFUSALS) {
    const response = await attempts[reason]();
    refused(t, response, 401, 'invalid_credentials');
    t.notOk('reason' in response.json<object>(), 'it would tell which names exist');
    t.match(lastLine(target), { code: 'invalid_credentials', reason });
  }
});

test('a limit is named with a hash of whom it limits', async (t) => {
  const target = await buildTestApp(t, { env: { RATE_LIMIT_LOGIN: '2/60', RATE_LIMIT_ACCOUNT: '1/60' } });
  const attempt = () => call(target, 'POST /api/auth', { payload: { username: 'ada', password: 'wrong' } });
  await attempt();
  for (const reason of ['account', 'login']) {
    t.match((await attempt()).json(), { code: 'rate_limited', reason });
    t.match(lastLine(target), {
      code: 'rate_limited',
      reason,
      limited: new RegExp(`^${reason}:[\\w-]{22}$`),
    });
    t.equal(await counted(target, { code: 'rate_limited', reason }), 1);
  }
});

test('in production no answer has a reason', async (t: Test) => {
  const target = await buildTestApp(t, {
    override: (options) => ({ ...options, config: { ...options.config, production: true } }),
  });
  const response = await verify(target, 'x');
  refused(t, response, 401, 'invalid_token');
  t.notOk('reason' in response.json<object>());
  t.match(lastLine(target), { reason: 'malformed' });
  const form = { client_assertion_type: JWT_BEARER, client_assertion: 'x' };
  const asserted = await askServiceToken(target, null, 'orders', form);
  refusedForOAuth(t, asserted, 401, 'invalid_client');
  t.notOk('reason' in asserted.json<object>());
  t.match(lastLine(target), { reason: 'assertion' });
});
