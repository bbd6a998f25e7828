--[[
  `announceRebuild` announces a rebuild: a replica is about to read the record, and then puts what it has read
  (put.lua). If Redis is emptied in between (FLUSHALL), it loses newer roles, names and tombstones, and the put must not
  bring back older ones. So the user's key holds a time, `since`: it has seen every change from then on. put.lua refuses
  what was read earlier.

  Input:
    userKey   made with `since` if there is none
    now       Redis's clock (µs), as text
  Output:
    nothing

  `missing` does it for a token without a state, and returns what the script answers: 'missing', now. A full Redis takes
  no announcement. Then put.lua refuses a state, and a token that has ended is still found in the record.
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

local function missing(userKey, now)
  local isAnnounced, reason = pcall(announceRebuild, userKey, now)
  -- It fails again, because error(reason) would put another word before the code that the client acts on.
  if not isAnnounced and not string.find(reason, 'OOM') then announceRebuild(userKey, now) end
  return 'missing\0' .. now
end
