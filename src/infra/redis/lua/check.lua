--[[
  Checks an access token or a long-lived token.
  Access tokens: the same rules as `checkAccess` in rotation.ts. The first use confirms that the client holds the pair.
  Long-lived tokens: notes a use once a minute, so that most checks write nothing.

  Includes:
    before: announce-rebuild.lua
    after: each.lua, which calls `handleToken` for each token
  Input:
    keys[1] token   keys[2] user (one hash tag)
    text: the generation of an access token; '' for a long-lived token
  Output, fields separated by NUL:
    'good' or 'superseded', created, username, name, user's created, roles [, latest, parent, first, client] [, used (ms)]
      with the state if this use confirmed the pair, with the time if this use was noted
    'missing', now | 'revoked' | 'reused' | 'disabled'   as in rotate.lua
]]
local function handleToken(keys, generation)
  local token = redis.call('HMGET', keys[1], 'created', 'revoked', 'latest', 'confirmed', 'used')
  local user = redis.call('HMGET', keys[2], 'username', 'name', 'created', 'disabled', 'roles')

  if token[2] == 'reused' then return 'reused' end
  if token[2] then return 'revoked' end
  if not token[1] or not user[1] then
    local time = redis.call('TIME')
    return missing(keys[2], string.format('%.0f', time[1] * 1000000 + time[2]))
  end
  if user[4] == '1' then return 'disabled' end
  local facts = table.concat({ token[1], user[1], user[2], user[3], user[5] }, '\0')

  if generation == '' then
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    if token[5] and now - tonumber(token[5]) < 60000 then return 'good\0' .. facts end
    local used = string.format('%.0f', now)
    local isNoted, reason = pcall(redis.call, 'HSET', keys[1], 'used', used)
    -- Only lists show it: a full Redis takes no note, and the token is good all the same.
    if not isNoted and string.find(reason, 'OOM') then return 'good\0' .. facts end
    if not isNoted then error(reason, 0) end
    return table.concat({ 'good', facts, used }, '\0')
  end

  local presented, latest = tonumber(generation), tonumber(token[3])
  if presented < latest then return 'superseded\0' .. facts end
  if presented > latest or token[4] == '1' then return 'good\0' .. facts end
  redis.call('HSET', keys[1], 'confirmed', '1')
  local state = redis.call('HMGET', keys[1], 'parent', 'first', 'client')
  return table.concat({ 'good', facts, token[3], state[1], state[2], state[3] }, '\0')
end
