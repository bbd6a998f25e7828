import { Redis } from 'ioredis';
import type { Test } from 'tap';
import type { Environment } from '../../src/config/config.ts';
import type { UserTokenRefusal } from '../../src/domain/refusal-reasons.ts';
import { makeTokenKeys } from '../../src/infra/redis/token-states.ts';
import { exchanged } from './audiences.ts';
import { call, claimsOf, headerOf, pairOf, refresh, signUp, type Pair } from './client.ts';
import { KEYS, withKeys } from './keys.ts';
import { testRedis } from './redis.ts';
import { aRegisteredService } from './registered-service.ts';
import { forge } from './tokens.ts';

/** Makes a token that is refused for one reason, as an access token. The use of a `reused` one ends that state. */
export type RefusedTokens = Record<UserTokenRefusal, () => Promise<string> | string>;

/** A service on Redis, with a way to make a token for each reason. */
export async function aServiceThatRefuses(t: Test, settings: Environment = {}) {
  const { url, prefix } = testRedis(t);
  const made = await withKeys(t, 'ES256', 0, { REDIS_URL: url, REDIS_PREFIX: prefix, ...settings });
  const { target, pem } = made;
  const { databaseUrl } = target;
  await aRegisteredService(databaseUrl, 'orders', ['introspect'], 'orders');
  const gateway = await aRegisteredService(databaseUrl, 'gateway', ['exchange', 'introspect', 'revoke']);
  const good = await signUp(target);
  const [header, claims] = [headerOf(good.access_token), claimsOf(good.access_token)];
  const now = Math.floor(Date.now() / 1000);
  const signed = (changes: object) => forge(header, { ...claims, ...changes }, pem);

  const ownPrefix = `${prefix}${new URL(databaseUrl).pathname}:`;
  const keys = makeTokenKeys(ownPrefix);
  const redis = new Redis(url);
  t.teardown(() => {
    redis.disconnect();
  });
  const keyOf = ({ access_token, user }: Pair) => ({
    userId: user.id,
    tokenId: Number(claimsOf(access_token).sid),
  });
  const after = (change: (pair: Pair) => Promise<unknown>) => async () => {
    const pair = await signUp(target);
    await change(pair);
    return pair.access_token;
  };
  const tokens: RefusedTokens = {
    malformed: () => 'x',
    type: () => good.refresh_token,
    unknown_key: () => forge({ ...header, kid: 'x' }, claims, KEYS.ES256()),
    signature: () => `${good.access_token.slice(0, -8)}AAAAAAAA`,
    issuer: () => signed({ iss: 'https://other.example' }),
    audience: () => exchanged(target, good.access_token),
    expired: () => signed({ iat: now - 900, exp: now - 60 }),
    superseded: after(async (pair) => pairOf(await refresh(target, pair.refresh_token))),
    revoked: after((pair) => call(target, 'DELETE /api/auth', { token: pair.access_token })),
    reused: after((pair) => redis.hset(keys.token(keyOf(pair)), 'revoked', 'reused')),
    disabled: after((pair) => redis.hset(keys.user(pair.user.id), 'disabled', '1')),
    gone: () => signed({ sid: 999_999, jti: `999999.${String(claims.gen)}` }),
  };
  return { ...made, good, gateway, redis, ownPrefix, tokens };
}
