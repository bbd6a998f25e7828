--[[
  Presents access tokens and long-lived tokens of one turn of the event loop, each with an outcome of its own.
  Access tokens: the same rules as `checkAccess` in rotation.ts. The first use confirms that the client holds the pair.
  Long-lived tokens: notes a use once a minute, so that most checks write nothing.

  Input, for token i:
    KEYS[2i - 1] token   KEYS[2i] user (one hash tag)
    ARGV[i] generation of an access token; '' for a long-lived token
  Output, for each token one string. NUL separates its fields: PostgreSQL stores no text with NUL.
    'good' or 'superseded', created, username, name, user's created [, latest, parent, first, client] [, used (ms)]
      with the state if this use confirmed the pair, with the time if this use was noted
    'missing', now | 'revoked' | 'reused' | 'disabled'   as in rotate.lua; a long-lived token is never 'reused'
    'failed', message   Redis refused to read or write the keys of this token
  Errors: READONLY, MASTERDOWN, NOREPLICAS: the client looks for another master
]]
local function check(tokenKey, userKey, generation)
  local token = redis.call('HMGET', tokenKey, 'created', 'revoked', 'latest', 'confirmed', 'used')
  local user = redis.call('HMGET', userKey, 'username', 'name', 'created', 'disabled')

  if token[2] == 'reused' and generation ~= '' then return 'reused' end
  if token[2] then return 'revoked' end
  if not token[1] or not user[1] then
    local time = redis.call('TIME')
    return 'missing\0' .. string.format('%.0f', time[1] * 1000000 + time[2])
  end
  if user[4] == '1' then return 'disabled' end
  local known = table.concat({ token[1], user[1], user[2], user[3] }, '\0')

  if generation == '' then
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    if token[5] and now - tonumber(token[5]) < 60000 then return 'good\0' .. known end
    local used = string.format('%.0f', now)
    redis.call('HSET', tokenKey, 'used', used)
    return table.concat({ 'good', known, used }, '\0')
  end

  local presented, latest = tonumber(generation), tonumber(token[3])
  if presented < latest then return 'superseded\0' .. known end
  if presented > latest or token[4] == '1' then return 'good\0' .. known end
  redis.call('HSET', tokenKey, 'confirmed', '1')
  local state = redis.call('HMGET', tokenKey, 'parent', 'first', 'client')
  return table.concat({ 'good', known, token[3], state[1], state[2], state[3] }, '\0')
end

local replies = {}
for i = 1, #KEYS / 2 do
  local isChecked, reply = pcall(check, KEYS[2 * i - 1], KEYS[2 * i], ARGV[i])
  if not isChecked then
    -- A table since Redis 7, a string before.
    local message = type(reply) == 'table' and reply.err or reply
    for _, code in ipairs({ 'READONLY', 'MASTERDOWN', 'NOREPLICAS' }) do
      if string.find(message, code) then return redis.error_reply(message) end
    end
    reply = 'failed\0' .. message
  end
  replies[i] = reply
end
return replies
