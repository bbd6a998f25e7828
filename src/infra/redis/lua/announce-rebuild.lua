--[[
  Announces a rebuild: a replica is about to read the record, and then puts what it has read (put.lua). If Redis is
  emptied in between (FLUSHALL), it loses newer roles, names and tombstones, and the put must not bring back older ones.
  So the user's key holds a time, `since`: it has seen every change from then on. put.lua refuses what was read earlier.

  Input:
    userKey   made with `since` if there is none
    now       Redis's clock (µs), as text
  Output:
    nothing
]]
local function announceRebuild(userKey, now)
  if redis.call('EXISTS', userKey) == 0 then
    redis.call('HSET', userKey, 'since', now)
    -- Twice as long as a put may take (MAX_AGE in put.lua).
    redis.call('EXPIRE', userKey, 20)
  elseif tonumber(redis.call('HMGET', userKey, 'since')[1]) > tonumber(now) then
    -- Redis's clock was set back: no put would be taken before it gets there again.
    redis.call('HSET', userKey, 'since', now)
  end
end
