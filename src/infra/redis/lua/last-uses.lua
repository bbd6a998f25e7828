--[[
  When each token of a user was last used.

  Input:
    KEYS the tokens (one hash tag)
  Output:
    one entry a token: {latest (µs) or nil, used (ms) or nil}
  Errors: none of its own
]]
local uses = {}
for i, key in ipairs(KEYS) do uses[i] = redis.call('HMGET', key, 'latest', 'used') end
return uses
