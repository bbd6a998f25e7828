--[[
  Checks an access token or a long-lived token.
  Access tokens: the same rules as `checkAccess` in rotation.ts. The first use confirms that the client holds the pair.
  Long-lived tokens: notes a use once a minute, so that most checks write nothing.

  Includes:
    before: announce-rebuild.lua
    before: email-verified.lua
    after: each.lua, which calls `handleToken` for each token
  Input:
    tokenKey, userKey (one hash tag)
    text: the generation of an access token; '' for a long-lived token
  Output, fields separated by NUL:
    'good' or 'superseded', created, username, name, user's created, roles, disabled ('3' or '2')
      [, latest, parent, first, client] [, used (ms)]
      with the state if this use confirmed the pair, with the time if this use was noted
    'missing', now | 'revoked' | 'reused' | 'disabled'   as in rotate.lua
]]
local call = redis.call

local function handleToken(tokenKey, userKey, generation)
  local isLongLived = generation == ''
  local token
  -- A field that is not asked for is one less to search and to return: Redis's part of a check is mostly that.
  if isLongLived then
    token = call('HMGET', tokenKey, 'created', 'revoked', 'used')
  else
    token = call('HMGET', tokenKey, 'created', 'revoked', 'latest', 'confirmed')
  end
  local user = call('HMGET', userKey, 'username', 'name', 'created', 'disabled', 'roles')

  if token[2] == 'reused' then return 'reused' end
  if token[2] then return 'revoked' end
  if not token[1] or not user[1] then
    local time = call('TIME')
    return missing(userKey, string.format('%.0f', time[1] * 1000000 + time[2]))
  end
  local disabled = user[4]
  if disabled == '1' then return 'disabled' end
  if disabled == '0' then disabled = insteadOfZero(userKey) end

  -- Most generations are the latest one. As texts they are compared without being read as numbers.
  local outcome = 'good\0'
  local isLatest = generation == token[3]
  if not isLongLived and not isLatest and tonumber(generation) < tonumber(token[3]) then outcome = 'superseded\0' end
  local answer = outcome .. token[1] .. '\0' .. user[1] .. '\0' .. user[2] .. '\0' .. user[3] .. '\0' .. user[5]
    .. '\0' .. disabled

  if isLongLived then
    local time = call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    if token[3] and now - tonumber(token[3]) < 60000 then return answer end
    local used = string.format('%.0f', now)
    local function note() call('HSET', tokenKey, 'used', used) end
    local isNoted, reason = pcall(note)
    -- Only lists show it: a full Redis takes no note, and the token is good all the same.
    if not isNoted and string.find(reason, 'OOM') then return answer end
    -- It fails again, because error(reason) would put another word before the code that the client acts on.
    if not isNoted then note() end
    return answer .. '\0' .. used
  end

  if not isLatest or token[4] == '1' then return answer end
  call('HSET', tokenKey, 'confirmed', '1')
  local state = call('HMGET', tokenKey, 'parent', 'first', 'client')
  return answer .. '\0' .. token[3] .. '\0' .. state[1] .. '\0' .. state[2] .. '\0' .. state[3]
end
