--[[
  Stores users who have changed, where Redis holds them. A smaller version than the stored one is
  an older reading, so it is left out. If Redis does not hold the user, the next request reads the record. A rebuild that
  is under way may have read it before the change. So a key that only announces a rebuild (announce-rebuild.lua) gets the
  version, and put.lua leaves the older reading out.

  Input:
    KEYS[1...] users
    ARGV[1] seconds to keep them
    ARGV[2...] for each user: version, username, name, user's created (ms), disabled (email-verified.lua), roles
      (comma-separated). NUL separates them: PostgreSQL stores no text with NUL.
  Output:
    nothing
  Errors: none of its own
]]
local FIELDS = '^(%d+)%z([^%z]*)%z([^%z]*)%z(%d+)%z([123])%z([^%z]*)$'

for i, key in ipairs(KEYS) do
  local stored = redis.call('HMGET', key, 'version', 'username', 'name', 'created', 'disabled', 'roles',
    'verified')
  local version, username, name, created, disabled, roles = string.match(ARGV[i + 1], FIELDS)
  if tonumber(stored[1] or 0) <= tonumber(version) then
    if not stored[2] then
      if redis.call('EXISTS', key) == 1 then redis.call('HSET', key, 'version', version) end
    -- Renewals come each second. They write, and so replicate, only what has changed.
    elseif stored[1] ~= version or stored[2] ~= username or stored[3] ~= name or stored[4] ~= created
      or stored[5] ~= disabled or stored[6] ~= roles then
      -- First, because Redis at its limit of memory lets a script write on after it.
      redis.call('EXPIRE', key, ARGV[1])
      redis.call('HSET', key, 'username', username, 'name', name, 'created', created, 'disabled', disabled, 'roles',
        roles, 'version', version)
      if disabled == '3' then
        redis.call('HSET', key, 'verified', version)
      elseif stored[7] then
        redis.call('HSET', key, 'verified', '')
      end
    end
  end
end
