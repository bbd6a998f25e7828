-- Puts the state of a new token, or of one whose key was missing, and its user. A state or tombstone that stands already
-- is newer than what was read, and what was read too long ago may have been overtaken by a tombstone that has expired.
-- Of a user the newest reading counts: who was disabled and is enabled again gets in by the next login, and who is
-- disabled has tombstones in place of tokens.
--
-- KEYS  1 token   2 user (one hash tag)
-- ARGV  1 clock (µs) when the record was read   2 seconds that a state is kept   3 used (ms, '' for never)
--       4 latest   5 parent   6 first   7 confirmed   8 client   9 created (ms)
--       10 user's username   11 name   12 created (ms)   13 disabled
-- Reply 1 where the state was taken, 0 where not
local MAX_AGE = 10000000
local time = redis.call('TIME')
if time[1] * 1000000 + time[2] - tonumber(ARGV[1]) > MAX_AGE then return 0 end

redis.call('HSET', KEYS[2], 'username', ARGV[10], 'name', ARGV[11], 'created', ARGV[12], 'disabled', ARGV[13])
redis.call('EXPIRE', KEYS[2], ARGV[2])

if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'latest', ARGV[4], 'parent', ARGV[5], 'first', ARGV[6], 'confirmed', ARGV[7],
  'client', ARGV[8], 'created', ARGV[9])
if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], 'used', ARGV[3]) end
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
