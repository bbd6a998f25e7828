import { appendFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { explainToken } from '../../src/cli/explain.ts';
import { forPeople, type Explanation } from '../../src/cli/explanation.ts';
import type { Environment } from '../../src/config/config.ts';
import { SESSION_REFUSALS, TOKEN_REFUSALS } from '../../src/domain/refusal-reasons.ts';
import { NO_DATA_DIR } from '../support/environment.ts';
import { exchanged } from '../support/audiences.ts';
import {
  call,
  claimsOf,
  createLimited,
  createLongLived,
  pairOf,
  refresh,
  signUp,
  verify,
} from '../support/client.ts';
import { latchkey } from '../support/latchkey.ts';
import { redisMissing } from '../support/redis.ts';
import { aServiceThatRefuses } from '../support/refused-tokens.ts';
import { aRegisteredService, basic, withRegistry } from '../support/registered-service.ts';
import { serviceToken } from '../support/service-tokens.ts';
import { sql } from '../support/sql.ts';
import '../support/watch-leaks.ts';

/** A service, and what `latchkey explain` says there. */
async function anExplainedService(t: Test, settings: Environment = {}) {
  const service = await aServiceThatRefuses(t, settings);
  const env = {
    ...service.env,
    DATABASE_URL: service.target.databaseUrl,
    REDIS_PREFIX: service.ownPrefix,
    DATA_DIR: NO_DATA_DIR,
  };
  const seen: string[] = [];
  const explain = async (token: string, others: Environment = {}): Promise<Explanation> => {
    const explanation = await explainToken(token, { ...env, ...others });
    const said = [JSON.stringify(explanation), forPeople(explanation)].join();
    seen.push(said);
    const parts = token.split('.').filter((part) => part.length > 8);
    t.notOk(
      parts.some((part) => said.includes(part)),
      'no part of the token',
    );
    return explanation;
  };
  return { ...service, env, explain, seen };
}

const skip = { skip: redisMissing };

test('each refused token has the reason of the service, and the check that fails', skip, async (t) => {
  const { target, tokens, explain, seen } = await anExplainedService(t);
  for (const reason of [...TOKEN_REFUSALS, ...SESSION_REFUSALS]) {
    const token = await tokens[reason]();
    const found = await explain(token);
    // A refresh token and an exchanged one are good, each at its own place.
    const isElsewhere = reason === 'type' || reason === 'audience';
    t.equal(found.reason, isElsewhere ? null : reason);
    const failed = Object.values(found.checks).filter((passes) => passes === false);
    t.equal(failed.length, isElsewhere ? 0 : 1, reason);
    if (reason === 'unknown_key' || reason === 'signature')
      t.equal(found.checks.issuer, null, 'an unproven issuer does not pass');
    const answer = (await verify(target, token)).json<{ reason: string }>();
    t.equal(answer.reason, reason, 'nothing has changed by the look');
  }
  t.notMatch(seen.join(), /@/, 'no e-mail address');
});

test('good tokens of each type are explained as what they are', skip, async (t) => {
  const { target, good, explain } = await anExplainedService(t);
  const { longlived_token: llt, id } = await createLongLived(target, good.access_token);
  const limited = await createLimited(target, good.access_token, ['orders:read', 'billing']);
  const all = {
    access: good.access_token,
    refresh: good.refresh_token,
    llt,
    limited: limited.token,
    exchanged: await exchanged(target, good.access_token),
  };
  for (const [type, token] of Object.entries(all)) {
    const found = await explain(token);
    t.match(found, {
      reason: null,
      token: { type },
      user: { id: good.user.id, username: good.user.username },
    });
    const lasting = { llt: id, limited: limited.id }[type];
    t.match(found.record, lasting ? { id: lasting, name: 'Kitchen tablet' } : { id: Number });
    t.equal(found.token.scope, type === 'limited' ? 'orders:read billing' : null);
  }
});

test('settings that are not those of the service', skip, async (t) => {
  const { good, explain } = await anExplainedService(t);
  t.equal((await explain(good.access_token, { AUDIENCE: 'another' })).reason, 'audience');
  t.equal((await explain(good.access_token, { ISSUER: 'https://other.example' })).reason, 'issuer');
  const nothing = { DATA_DIR: t.testdir({ keys: {} }) };
  for (const [missing, message] of [
    ['SIGNING_KEYS_DIR', /no \.pem file/],
    ['REFRESH_TOKEN_SECRET_FILE', /the service's REFRESH_TOKEN_SECRET, or its DATA_DIR/],
  ] as const)
    await t.rejects(explain(good.access_token, { ...nothing, [missing]: undefined }), { message });
});

test('a superseded refresh token: what would happen if it were used', skip, async (t) => {
  const { target, explain } = await anExplainedService(t, { REFRESH_RETRY_WINDOW: '0' });
  const first = await signUp(target);
  const second = pairOf(await refresh(target, first.refresh_token));
  const retried = await explain(first.refresh_token);
  t.match(retried, { reason: null, ended: null }, 'as after a lost answer');
  t.match(retried.facts.join(), /never used/);
  await verify(target, second.access_token);
  t.match(await explain(first.refresh_token), { reason: 'superseded', to_do: /as stolen/ });
  t.match(await explain(first.access_token), { ended: { reason: 'a newer pair was issued' } });
  pairOf(await refresh(target, second.refresh_token));
});

test('an ended token: when, why, by whom and from where, by the audit trail', skip, async (t) => {
  const { target, folder, tokens, good, explain } = await anExplainedService(t);
  const file = join(folder, 'audit.log');
  const { token: limited } = await createLimited(target, good.access_token, ['orders:read', 'billing']);
  await call(target, 'DELETE /api/auth', { token: limited });
  await call(target, 'DELETE /api/auth', { token: good.access_token, headers: { 'user-agent': 'x' } });
  const { access_token: byService, user } = await signUp(target);
  const desk = await aRegisteredService(target.databaseUrl, 'desk', ['users.write']);
  await call(target, `DELETE /api/users/${user.id}/tokens`, { headers: basic(desk) });
  writeFileSync(
    file,
    `no JSON\n${target
      .audit()
      .map((entry) => `${JSON.stringify(entry)}\n`)
      .join('')}`,
  );
  const ended = { at: String, reason: 'logout' };
  t.match(await explain(good.access_token, { AUDIT_LOG: `file:${file}` }), {
    reason: 'revoked',
    ended: {
      ...ended,
      event: 'token.revoked',
      by: { type: 'user', user_id: good.user.id },
      address: '127.0.0.1',
    },
  });
  const foundLimited = await explain(limited, { AUDIT_LOG: `file:${file}` });
  t.match(foundLimited, {
    reason: 'revoked',
    token: { type: 'limited', scope: 'orders:read billing' },
    ended: { ...ended, event: 'token.revoked', by: { type: 'user', user_id: good.user.id } },
    to_do: /create a new limited token/,
  });
  t.match(forPeople(foundLimited), /^ {2}scopes +orders:read billing$/m);
  t.match(await explain(byService, { AUDIT_LOG: `file:${file}` }), {
    ended: {
      reason: 'admin',
      event: 'user.logged_out_by_client',
      by: { type: 'service', client_id: desk.serviceId },
    },
  });
  const disabled = await tokens.disabled();
  const user_id = Number(claimsOf(disabled).sub);
  const end = "UPDATE tokens SET revoked_at = now(), end_reason = 'admin' WHERE user_id = $1";
  await sql(target.databaseUrl, end, [user_id]);
  const disabling = (name: string, time: number) =>
    JSON.stringify({
      log: 'audit',
      event: 'user.disable',
      time: new Date(time).toISOString(),
      subject: { user_id },
      actor: { type: 'operator', name, host: 'h' },
      details: {},
    });
  const now = Date.now();
  appendFileSync(file, [disabling('before', now - 900_000), disabling('eve', now), ''].join('\n'));
  t.match(await explain(disabled, { AUDIT_LOG: `file:${file}` }), {
    ended: { reason: 'admin', event: 'user.disable', by: { name: 'eve' } },
  });
  const others = await tokens.revoked();
  for (const AUDIT_LOG of [`file:${file}`, 'file:/nowhere/audit.log', 'stdout'])
    t.match(await explain(others, { AUDIT_LOG }), { ended: { ...ended, event: null } });
});

test('with a store away, it says what the other one knows', skip, async (t) => {
  const { good, tokens, explain } = await anExplainedService(t);
  const noRedis = { REDIS_URL: 'redis://127.0.0.1:1' };
  const noPostgres = { DATABASE_URL: 'postgres://127.0.0.1:1/none' };
  const revoked = await tokens.revoked();
  for (const away of [noRedis, noPostgres, { ...noRedis, ...noPostgres }]) {
    const found = await explain(good.access_token, away);
    t.equal(found.reason, 'REDIS_URL' in away ? 'unknown' : null);
    t.match(found.facts.join(), /does not answer/);
  }
  t.equal((await explain(revoked, noRedis)).reason, 'revoked', 'the record knows');
  t.equal((await explain(revoked, noPostgres)).reason, 'revoked', 'Redis knows');
  t.equal((await explain(await tokens.disabled(), noPostgres)).reason, 'disabled', 'Redis knows');
});

test('Redis decides, as at the service, if it has the state', skip, async (t) => {
  const { target, good, explain } = await anExplainedService(t);
  const { databaseUrl } = target;
  await sql(databaseUrl, 'UPDATE tokens SET latest = latest + 60000000 WHERE user_id = $1', [good.user.id]);
  t.equal((await explain(good.access_token)).reason, null, 'a failover has lost the newest pair');
  t.equal((await explain(good.access_token, { REDIS_PREFIX: 'none:' })).reason, 'superseded');
  await sql(databaseUrl, 'UPDATE users SET disabled_at = now() WHERE id = $1', [good.user.id]);
  t.match((await explain(good.access_token, { REDIS_PREFIX: 'none:' })).to_do, /user enable/);
});

test('a service token: its client, what ended it, and what to do', skip, async (t) => {
  const { target, explain } = await anExplainedService(t);
  const { databaseUrl } = target;
  const shop = await aRegisteredService(databaseUrl, 'shop', ['call:orders']);
  const change = (work: Parameters<typeof withRegistry>[1]) => withRegistry(databaseUrl, work);
  const token = await serviceToken(target, shop);
  const client = { id: shop.serviceId, name: 'shop' };
  const good = await explain(token);
  t.match(good, { reason: null, token: { type: 'service', audience: 'orders' }, client, user: null });
  t.match(good.checks, { audience: true, client: true, session: null });
  await change((registry) => registry.remove('orders'));
  t.match(await explain(token), { reason: null }, 'its audience may have been deleted');
  t.match(await explain(token, { DATABASE_URL: 'postgres://127.0.0.1:1/none' }), {
    reason: 'unknown',
    checks: { expiry: true, client: null },
    client: { id: shop.serviceId, name: null },
  });

  for (const [work, reason, toDo] of [
    [(registry) => registry.allow('shop', []), 'right', /right call:orders now: latchkey client allow shop/],
    [(registry) => registry.endTokens('shop'), 'revoked', /end-tokens or disable: it gets a new token/],
    [(registry) => registry.disable('shop'), 'disabled', /latchkey client enable shop/],
    [(registry) => registry.remove('shop'), 'gone', /was deleted/],
  ] as [Parameters<typeof withRegistry>[1], string, RegExp][]) {
    await change(work);
    const found = await explain(token);
    t.match(found, { reason, checks: { expiry: true, client: false }, to_do: toDo });
  }
});

test('the command takes the token from standard input alone', skip, async (t) => {
  const { env, good } = await anExplainedService(t);
  const ask = (args: string[], input: string) => latchkey(['explain', ...args], env, undefined, input);
  const { code, stdout } = await ask([], `Authorization: Bearer ${good.access_token}\n`);
  t.equal(code, 0);
  t.match(stdout, /^The token is good\.\n/);
  const refusal = await ask(['--json'], 'x');
  t.equal(refusal.code, 1);
  t.match(JSON.parse(refusal.stdout), { reason: 'malformed', checks: { form: false, session: null } });
  for (const [args, input] of [
    [[good.access_token], ''],
    [[], ''],
    [[], 'x'.repeat(20_000)],
  ] as const) {
    const wrong = await ask([...args], input);
    t.equal(wrong.code, 2);
    t.notMatch(wrong.stderr, good.access_token);
  }
});
