--[[
  Stores a user whose names or roles have changed, if Redis holds the user. A smaller version than the stored one is an
  older reading, so it is left out. If Redis does not hold the user, the next request reads the record. A rebuild that is
  under way may have read it before the change. So a key that only announces a rebuild (announce-rebuild.lua) gets the
  version, and put.lua leaves the older reading out.

  Input:
    KEYS[1] user
    ARGV[1] seconds to keep it   ARGV[2] username   ARGV[3] name   ARGV[4] user's created (ms)   ARGV[5] disabled
    ARGV[6] roles, comma-separated   ARGV[7] version
  Output:
    nothing
  Errors: none of its own
]]
if redis.call('EXISTS', KEYS[1]) == 0 then return end
local stored = redis.call('HMGET', KEYS[1], 'username', 'version')
if tonumber(stored[2] or 0) > tonumber(ARGV[7]) then return end
if not stored[1] then
  redis.call('HSET', KEYS[1], 'version', ARGV[7])
  return
end
-- First, because Redis at its limit of memory lets a script write on after it.
redis.call('EXPIRE', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[1], 'username', ARGV[2], 'name', ARGV[3], 'created', ARGV[4], 'disabled', ARGV[5],
  'roles', ARGV[6], 'version', ARGV[7])
