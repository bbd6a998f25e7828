--[[
  The feed of revocations and changed users: adds new events, and reads the events after a position. Numbers count from
  1 within an epoch. A new epoch begins if events may be missing: keys are gone, the server was replaced or restarted,
  or no replica renewed for longer than a renewal looks back.

  Includes:
    before: server-id.lua
  Input:
    KEYS[1] epoch, server, last number, time of renewal, renewals asked for and served   KEYS[2] stream   KEYS[3] added lately (one hash tag)
    ARGV[1] name of a new epoch   ARGV[2] seconds to keep everything   ARGV[3] events to keep, roughly
    ARGV[4] seconds within which an event is not added twice
    ARGV[5], ARGV[6] a renewal: revoked between this many seconds ago and this many; '' for none
    ARGV[7] read the events after this number, '' for none   ARGV[8] the most events to return
    ARGV[9] asks for a full renewal, '' to ask for none
    ARGV[10], ARGV[11] a full renewal: the epoch and the number that it read before it read the record; '' for none
    ARGV[12...] 'KIND:USER:NUMBER' each
      'token' revoked on record   'theft' not on record yet   'user' all tokens up to this number   'covered' needs no event
      'user_…' a user's version: the kind is the event's type
  Output:
    {epoch, last number, added, 1 if no later event is missing else 0, {{id, fields}...}, asked, served}
    fields: kind, 'USER:NUMBER'
    asked, served: how often this epoch was asked for a full renewal, and how many of these came before the last one
  Errors: none of its own
]]
local now = tonumber(redis.call('TIME')[1])
local server = serverId()
local kept = redis.call('HMGET', KEYS[1], 'epoch', 'server', 'last', 'renewed', 'asked', 'served')
local epoch, last, renewed = kept[1], tonumber(kept[3] or '0'), kept[4]
local asked, served = tonumber(kept[5] or '0'), tonumber(kept[6] or '0')
local isRenewal, isAsking = ARGV[5] ~= '', ARGV[9] ~= ''
local isWhole = epoch and kept[2] == server and (last == 0 or redis.call('EXISTS', KEYS[2]) == 1)
if isWhole and isRenewal then isWhole = now - renewed <= tonumber(ARGV[5]) end
if not isWhole then
  redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
  epoch, last, asked, served = ARGV[1], 0, 0, 0
  redis.call('HSET', KEYS[1], 'epoch', epoch, 'server', server, 'renewed', now)
elseif isRenewal or isAsking or #ARGV > 11 then
  -- First, because Redis at its limit of memory lets a script write on after it.
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now - ARGV[4])
  if isRenewal then redis.call('HSET', KEYS[1], 'renewed', now - ARGV[6]) end
end
-- Of another epoch, the number says nothing: who asked was told another one.
if ARGV[10] == epoch then
  served = math.max(served, tonumber(ARGV[11]))
  redis.call('HSET', KEYS[1], 'served', served)
end
if isAsking then
  asked = asked + 1
  redis.call('HSET', KEYS[1], 'asked', asked)
end

local before = last
for i = 12, #ARGV do
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
  epoch, string.format('%.0f', last), last - before, isThere, events, asked, served
}
