--[[
  Stands at the beginning of scripts after which a replica reads the record, to put what it has read (put.lua). If all
  keys vanish in between (FLUSHALL), newer roles, names and tombstones vanish with them. So the user's key, if there is
  none, gets the time from which on it knows all changes. A put of something that was read before is refused.

  plant(key, now)   key: user   now: Redis's clock (µs), as text
]]
local function plant(key, now)
  if redis.call('EXISTS', key) == 0 then
    redis.call('HSET', key, 'since', now)
    -- Twice as long as a put may take (MAX_AGE in put.lua).
    redis.call('EXPIRE', key, 20)
  elseif tonumber(redis.call('HMGET', key, 'since')[1]) > tonumber(now) then
    -- Redis's clock was set back: no put would be taken before it gets there again.
    redis.call('HSET', key, 'since', now)
  end
end
