-- Sets a tombstone in place of whatever stands there.
--
-- KEYS  1 token
-- ARGV  1 seconds that it is kept
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'revoked', '1')
redis.call('EXPIRE', KEYS[1], ARGV[1])
