--[[
  The feed of revocations and changed users: adds new events, and reads the events after a position. Numbers count from
  1 within an epoch. A new epoch begins if events may be missing: keys are gone, the server was replaced or restarted,
  or no replica renewed for longer than a renewal looks back.

  Includes:
    before: server-id.lua
  Input:
    KEYS[1] epoch, server, last number and time of renewal   KEYS[2] stream   KEYS[3] added lately (one hash tag)
    ARGV[1] name of a new epoch   ARGV[2] seconds to keep everything   ARGV[3] events to keep, roughly
    ARGV[4] seconds within which an event is not added twice
    ARGV[5], ARGV[6] a renewal: revoked between this many seconds ago and this many; '' for none
    ARGV[7] read the events after this number, '' for none   ARGV[8] the most events to return
    ARGV[9...] 'KIND:USER:NUMBER' each
      'token' revoked on record   'theft' not on record yet   'user' all tokens up to this number   'covered' needs no event
      'user_…' a user's version: the kind is the event's type
  Output:
    {epoch, last number, added, 1 if no later event is missing else 0, {{id, fields}...}, renewed, now}
    fields: kind, 'USER:NUMBER'   renewed: the last full renewal, or the epoch, did not begin before; seconds
    now: milliseconds, both by this server's clock
  Errors: none of its own
]]
local time = redis.call('TIME')
local now = tonumber(time[1])
local server = serverId()
local kept = redis.call('HMGET', KEYS[1], 'epoch', 'server', 'last', 'renewed')
local epoch, last, renewed = kept[1], tonumber(kept[3] or '0'), kept[4]
local isRenewal = ARGV[5] ~= ''
local isWhole = epoch and kept[2] == server and (last == 0 or redis.call('EXISTS', KEYS[2]) == 1)
if isWhole and isRenewal then isWhole = now - renewed <= tonumber(ARGV[5]) end
if not isWhole then
  redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
  epoch, last, renewed = ARGV[1], 0, now
  redis.call('HSET', KEYS[1], 'epoch', epoch, 'server', server, 'renewed', renewed)
elseif isRenewal then
  renewed = now - ARGV[6]
  redis.call('HSET', KEYS[1], 'renewed', renewed)
end

local before = last
if #ARGV > 8 then redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now - ARGV[4]) end
for i = 9, #ARGV do
  -- A theft that is now on record is added again: earlier snapshots did not hold it.
  local name, isCovered = string.gsub(ARGV[i], '^covered:', 'token:')
  if not redis.call('ZSCORE', KEYS[3], name) then
    redis.call('ZADD', KEYS[3], now, name)
    if isCovered == 0 then
      last = last + 1
      local kind, key = string.match(name, '^(.-):(.+)$')
      redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], string.format('%.0f-0', last), kind, key)
    end
  end
end
if last > before then redis.call('HSET', KEYS[1], 'last', string.format('%.0f', last)) end
if last > before or isRenewal or not isWhole then
  for i = 1, 3 do redis.call('EXPIRE', KEYS[i], ARGV[2]) end
end

local isThere, events = 1, {}
if ARGV[7] ~= '' and tonumber(ARGV[7]) < last then
  local following = tonumber(ARGV[7]) + 1
  local first = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1)[1][1]
  if tonumber(string.match(first, '%d+')) > following then
    isThere = 0
  else
    events = redis.call('XRANGE', KEYS[2], string.format('%.0f-0', following), '+', 'COUNT', ARGV[8])
  end
end
return {
  epoch, string.format('%.0f', last), last - before, isThere, events, tonumber(renewed),
  now * 1000 + math.floor(time[2] / 1000)
}
