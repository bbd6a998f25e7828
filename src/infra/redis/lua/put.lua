--[[
  Stores the state of a new token, or of one whose key was missing, and its user. An existing state or tombstone is newer
  than the record, so it stays. A record that was read too long ago is refused: a tombstone may have been set and have
  expired since. So is one that was read before the `since` of the user's key (announce-rebuild.lua), and one whose
  user's key has vanished since. The user is overwritten, unless a newer version stands here: an enabled user gets in
  with the next login, and a disabled user has tombstones in place of tokens.

  Input:
    KEYS[1] token   KEYS[2] user (one hash tag)
    ARGV[1] Redis's clock (µs) when the record was read   ARGV[2] seconds to keep a state   ARGV[3] used (ms, '' for never)
    ARGV[4] latest   ARGV[5] parent   ARGV[6] first   ARGV[7] confirmed   ARGV[8] client   ARGV[9] created (ms)
    ARGV[10] username   ARGV[11] name   ARGV[12] user's created (ms)   ARGV[13] disabled (email-verified.lua)
    ARGV[14] roles, comma-separated   ARGV[15] version; -1 leaves the user as it is
  Output:
    1 if the state was taken, otherwise 0
  Errors: none of its own
]]
local MAX_AGE = 10000000
local time = redis.call('TIME')
if time[1] * 1000000 + time[2] - tonumber(ARGV[1]) > MAX_AGE then return 0 end

if redis.call('EXISTS', KEYS[2]) == 0 then return 0 end
local stored = redis.call('HMGET', KEYS[2], 'since', 'version', 'verified')
if tonumber(stored[1]) > tonumber(ARGV[1]) then return 0 end

if tonumber(ARGV[15]) >= tonumber(stored[2] or 0) then
  redis.call('HSET', KEYS[2], 'username', ARGV[10], 'name', ARGV[11], 'created', ARGV[12], 'disabled', ARGV[13])
  redis.call('HSET', KEYS[2], 'roles', ARGV[14], 'version', ARGV[15])
  if ARGV[13] == '3' then
    redis.call('HSET', KEYS[2], 'verified', ARGV[15])
  elseif stored[3] then
    redis.call('HSET', KEYS[2], 'verified', '')
  end
end
redis.call('EXPIRE', KEYS[2], ARGV[2])

if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'latest', ARGV[4], 'parent', ARGV[5], 'first', ARGV[6], 'confirmed', ARGV[7],
  'client', ARGV[8], 'created', ARGV[9])
if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], 'used', ARGV[3]) end
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
