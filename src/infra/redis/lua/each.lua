--[[
  Runs the function `handleToken` of the script before it for many tokens, in order. Each has an outcome of its own.

  Input, for each token:
    2 KEYS: token, user (one hash tag)
    1 ARGV: what `handleToken` takes as `text`
  Output, for each token one string. NUL separates its fields: PostgreSQL stores no text with NUL.
    what `handleToken` returns
    'failed', message   Redis refused to read or write the keys of this token, and the call has others
  Errors: READONLY, MASTERDOWN, NOREPLICAS: the client looks for another master
    of a single token, any error: the client treats it as `failed`
]]
-- A single token's error concerns no other one, so pcall would only cost.
if #KEYS == 2 then return { handleToken(KEYS[1], KEYS[2], ARGV[1]) } end

local replies = {}
for i = 1, #KEYS / 2 do
  local isAnswered, reply = pcall(handleToken, KEYS[2 * i - 1], KEYS[2 * i], ARGV[i])
  if not isAnswered then
    -- Redis 6 says before it where the script failed.
    reply = string.match(reply, '%-(%u+ .*)') or reply
    for _, code in ipairs({ 'READONLY', 'MASTERDOWN', 'NOREPLICAS' }) do
      if string.find(reply, code) then return redis.error_reply(reply) end
    end
    reply = 'failed\0' .. reply
  end
  replies[i] = reply
end
return replies
