-- Sets a tombstone in place of whatever stands there.
--
-- KEYS  1 token
-- ARGV  1 seconds that it is kept   2 'reused' where the record has yet to hear of a theft (see rotate.lua), otherwise '1'
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'revoked', ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[1])
