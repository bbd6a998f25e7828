--[[
  Prepares a put of what is read from the record from now on.

  Includes:
    before: announce-rebuild.lua
  Input:
    KEYS[1] user
  Output:
    now   the clock of the master that holds the key (µs, as text)
  Errors: none of its own
]]
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000000 + time[2])
announceRebuild(KEYS[1], now)
return now
