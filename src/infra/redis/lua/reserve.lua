--[[
  Takes one of a counter's slots for attempts. The number of slots limits the attempts in any window. A slot becomes free
  when its window has passed or release.lua frees it. Attempts have one size: the loop over a full counter of a network
  must not cost Redis a walk over a thousand attempts.

  Input:
    KEYS[1] counter: the attempts in the window, the oldest first, each as TIME:ID and a space (ms)
    ARGV[1] slots   ARGV[2] window (ms)   ARGV[3] id of this attempt, as long as all others
  Output:
    {1, attempts in the window before this one} if a slot was taken, else {0, ms until one is free}
  Errors: none of its own
]]
local time = redis.call('TIME')
local now = math.floor((time[1] * 1000000 + time[2]) / 1000)
local slots, window = tonumber(ARGV[1]), tonumber(ARGV[2])

local held = redis.call('GET', KEYS[1]) or ''
local size = #string.format('%.0f:%s ', now, ARGV[3])
local function timeOf(place) return tonumber(string.match(held, '^%d+', (place - 1) * size + 1)) end

local count, passed = #held / size, 0
for place = 1, count do
  if timeOf(place) + window > now then break end
  passed = place
end
held = string.sub(held, passed * size + 1)
count = count - passed
-- If the limit was lowered, several attempts have to expire.
if count >= slots then return { 0, timeOf(count - slots + 1) + window - now } end

-- Sorted, in case the clock went back.
local at = math.max(now, timeOf(count) or now)
held = held .. string.format('%.0f:%s ', at, ARGV[3])
redis.call('SET', KEYS[1], held, 'PX', string.format('%.0f', at + window - now))
return { 1, count }
