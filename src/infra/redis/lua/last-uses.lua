-- When each of a user's tokens was last used.
--
-- KEYS  the tokens (one hash tag)
-- Reply for each {latest (µs) or nil, used (ms) or nil}
local uses = {}
for i, key in ipairs(KEYS) do uses[i] = redis.call('HMGET', key, 'latest', 'used') end
return uses
