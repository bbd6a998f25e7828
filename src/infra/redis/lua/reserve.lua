--[[
  Takes one of a counter's slots for attempts. The number of slots limits the attempts in any window. A slot becomes free
  when its window has passed or release.lua frees it.

  Input:
    KEYS[1] counter: the attempts in the window, the oldest first, each as TIME:ID (ms)
    ARGV[1] slots   ARGV[2] window (ms)   ARGV[3] id of this attempt
  Output:
    {1} if a slot was taken, else {0, ms until one is free}
  Errors: none of its own
]]
local time = redis.call('TIME')
local now = math.floor((time[1] * 1000000 + time[2]) / 1000)
local slots, window = tonumber(ARGV[1]), tonumber(ARGV[2])

local held, times = {}, {}
for at, id in string.gmatch(redis.call('GET', KEYS[1]) or '', '(%d+):(%S+)') do
  if at + window > now then
    table.insert(held, at .. ':' .. id)
    table.insert(times, tonumber(at))
  end
end
-- If the limit was lowered, several attempts have to expire.
if #times >= slots then return { 0, times[#times - slots + 1] + window - now } end

-- Sorted, in case the clock went back.
local at = math.max(now, times[#times] or now)
table.insert(held, string.format('%.0f:%s', at, ARGV[3]))
redis.call('SET', KEYS[1], table.concat(held, ' '), 'PX', string.format('%.0f', at + window - now))
return { 1 }
