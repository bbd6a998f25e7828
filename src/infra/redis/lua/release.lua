--[[
  Frees a slot that reserve.lua took, so that its attempt does not count. The other slots keep their time.

  Input:
    KEYS[1] counter
    ARGV[1] id of the attempt
  Output:
    nothing
  Errors: none of its own
]]
local held = redis.call('GET', KEYS[1])
local id = ':' .. ARGV[1]
local first, last = string.find(held or '', id, 1, true)
if not first then return end

-- A time in milliseconds has 13 digits until the year 2286.
held = string.sub(held, 1, first - 14) .. string.sub(held, last + 2)
if held == '' then return redis.call('DEL', KEYS[1]) end
redis.call('SET', KEYS[1], held, 'PX', math.max(1, redis.call('PTTL', KEYS[1])))
