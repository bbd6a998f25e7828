--[[
  Frees a slot that reserve.lua took, so that its attempt does not count. The other slots keep their time.

  Input:
    KEYS[1] counter
    ARGV[1] id of the attempt
  Output:
    nothing
  Errors: none of its own
]]
local attempts = redis.call('GET', KEYS[1])
if not attempts then return end

local held = {}
for attempt in string.gmatch(attempts, '%S+') do
  if string.match(attempt, ':(.*)') ~= ARGV[1] then table.insert(held, attempt) end
end
if #held == 0 then return redis.call('DEL', KEYS[1]) end
redis.call('SET', KEYS[1], table.concat(held, ' '), 'PX', math.max(1, redis.call('PTTL', KEYS[1])))
