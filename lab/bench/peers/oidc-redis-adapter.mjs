/** Models whose artifacts belong to a grant, and end with it. */
const GRANTABLE = new Set([
  'AccessToken',
  'AuthorizationCode',
  'BackchannelAuthenticationRequest',
  'DeviceCode',
  'RefreshToken',
]);
/** Models whose artifacts are used once. */
const CONSUMABLE = new Set([
  'AuthorizationCode',
  'BackchannelAuthenticationRequest',
  'DeviceCode',
  'RefreshToken',
]);

/**
 * The adapter that oidc-provider's documentation asks for, in Redis: JSON at one key an artifact, a hash if it can be
 * consumed, and a list of keys for each grant.
 */
export function redisAdapter(redis, prefix) {
  const grantKey = (id) => `${prefix}grant:${id}`;
  const uidKey = (uid) => `${prefix}uid:${uid}`;
  const userCodeKey = (code) => `${prefix}userCode:${code}`;

  return class RedisAdapter {
    constructor(name) {
      this.name = name;
      this.isConsumable = CONSUMABLE.has(name);
    }

    key(id) {
      return `${prefix}${this.name}:${id}`;
    }

    async upsert(id, payload, expiresIn) {
      const key = this.key(id);
      const json = JSON.stringify(payload);
      const batch = redis.multi();
      if (this.isConsumable) batch.hset(key, 'payload', json);
      else batch.set(key, json);
      if (expiresIn) batch.expire(key, expiresIn);
      if (GRANTABLE.has(this.name) && payload.grantId) {
        const list = grantKey(payload.grantId);
        batch.rpush(list, key);
        // A grant's list lives as long as its longest artifact.
        if (expiresIn > (await redis.ttl(list))) batch.expire(list, expiresIn);
      }
      if (payload.uid) batch.set(uidKey(payload.uid), id, 'EX', expiresIn);
      if (payload.userCode) batch.set(userCodeKey(payload.userCode), id, 'EX', expiresIn);
      await batch.exec();
    }

    async find(id) {
      if (!this.isConsumable) {
        const json = await redis.get(this.key(id));
        return json === null ? undefined : JSON.parse(json);
      }
      const { payload, ...rest } = await redis.hgetall(this.key(id));
      return payload === undefined ? undefined : { ...rest, ...JSON.parse(payload) };
    }

    async findByUid(uid) {
      return this.find(await redis.get(uidKey(uid)));
    }

    async findByUserCode(code) {
      return this.find(await redis.get(userCodeKey(code)));
    }

    async destroy(id) {
      await redis.del(this.key(id));
    }

    async consume(id) {
      await redis.hset(this.key(id), 'consumed', Math.floor(Date.now() / 1000));
    }

    async revokeByGrantId(id) {
      const keys = await redis.lrange(grantKey(id), 0, -1);
      await redis.del(grantKey(id), ...keys);
    }
  };
}
