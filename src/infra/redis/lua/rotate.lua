--[[
  Rotates a refresh token. The same rules as `rotate` in rotation.ts, line by line.

  Includes:
    before: announce-rebuild.lua
    before: email-verified.lua
    after: each.lua, which calls `handleToken` for each token
  Input:
    tokenKey, userKey (one hash tag)
    text, fields separated by a space: generation, elapsed (µs), retry window (µs), caller's fingerprint ('' never
      matches), seconds to keep a state, seconds to keep a tombstone, when the request was sent (µs; by the sender's
      estimate of this Redis's clock)
  Output, fields separated by NUL:
    outcome, now, detail, latest, parent, first, confirmed, client, created, username, name, user's created,
      roles, disabled ('3' or '2')
      outcome 'issued' (detail: the row of the table), 'held' (detail: µs to wait), 'refused' (detail: the reason),
      'repeated' or 'reused' (detail: '')
    'missing', now   no state or no user here: rebuild it from the record
    'revoked' | 'disabled'
    'reused'   an earlier call found the theft
]]
local call = redis.call
local MAX_ELAPSED, MAX_LEAD_FOR_RECENT, MAX_LEAD = 5000000, 1000000, 60000000

-- All tokens of a call have one time.
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

-- tostring() loses digits above 10^14. To format a number costs about as much as an HSET, and replies repeat numbers.
local printed = {}
local function print53(number)
  printed[number] = printed[number] or string.format('%.0f', number)
  return printed[number]
end

local FIELDS = '^(%S+) (%S+) (%S+) (%S*) (%S+) (%S+) (%S+)$'

local function handleToken(tokenKey, userKey, text)
  local presented, elapsedBefore, within, client, keep, keepTombstone, sentAt = string.match(text, FIELDS)
  local generation, window = tonumber(presented), tonumber(within)
  local token = call('HMGET', tokenKey, 'latest', 'parent', 'first', 'confirmed', 'client', 'created', 'revoked')
  local user = call('HMGET', userKey, 'username', 'name', 'created', 'disabled', 'roles')
  -- After a network outage, requests arrive that clients gave up long ago. So the time on the network counts as elapsed.
  local elapsed = tonumber(elapsedBefore) + math.max(0, now - tonumber(sentAt))

  -- The replica that found the theft may have died before it wrote the record. So every caller gets 'reused' until
  -- revoke.lua has run.
  if token[7] == 'reused' then return 'reused' end
  if token[7] then return 'revoked' end
  if not token[1] or not user[1] then return missing(userKey, print53(now)) end
  local disabled = user[4]
  if disabled == '1' then return 'disabled' end
  if disabled == '0' then disabled = insteadOfZero(userKey) end

  local stored, parent, first = tonumber(token[1]), tonumber(token[2]), tonumber(token[3])
  local confirmed, lastClient = token[4], token[5]
  local latest = math.max(stored, generation)

  local function reply(outcome, detail)
    return outcome .. '\0' .. print53(now) .. '\0' .. detail .. '\0' .. print53(latest) .. '\0' .. print53(parent)
      .. '\0' .. print53(first) .. '\0' .. confirmed .. '\0' .. lastClient .. '\0' .. token[6] .. '\0' .. user[1]
      .. '\0' .. user[2] .. '\0' .. user[3] .. '\0' .. user[5] .. '\0' .. disabled
  end

  local function issue(row, newParent, newFirst)
    if latest - now > MAX_LEAD then
      latest = stored
      return reply('refused', 'clock')
    end
    latest = math.max(latest + 1, now)
    parent, first, confirmed, lastClient = newParent, newFirst or latest, '0', client
    call('HSET', tokenKey, 'latest', print53(latest), 'parent', print53(parent), 'first', print53(first),
      'confirmed', confirmed, 'client', client)
    call('EXPIRE', tokenKey, keep)
    -- What 1.0.0 has written does not say whether the address is verified, so it is read from the record again in time.
    if user[4] ~= '0' then call('EXPIRE', userKey, keep) end
    return reply('issued', row)
  end

  if elapsed > MAX_ELAPSED then
    latest = stored
    return reply('refused', 'stale')
  end
  if generation == latest then return issue(generation > stored and 'ahead' or 'current', generation) end

  local recent = latest - now <= math.max(MAX_LEAD_FOR_RECENT, window)
    and (now - elapsed <= latest or now - latest <= window)
  if recent then
    if generation == parent and client ~= '' and client == lastClient then return reply('repeated', '') end
    return reply('held', print53(math.max(0, latest + window - now)))
  end
  if parent < generation and generation < first then return issue('gap', generation, first) end
  if generation == parent and confirmed ~= '1' then return issue('unconfirmed', parent, first) end

  call('DEL', tokenKey)
  call('HSET', tokenKey, 'revoked', 'reused')
  call('EXPIRE', tokenKey, keepTombstone)
  return reply('reused', '')
end
