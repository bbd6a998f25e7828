-- Presents an access token: rotation.ts's `checkAccess`. Its first use confirms that its client holds the pair.
--
-- KEYS  1 token   2 user (one hash tag)
-- ARGV  1 generation
-- Reply {'missing', now} | {'revoked'} | {'reused'} (see rotate.lua) | {'disabled'}
--       | {'superseded' or 'good', created, user's username, name, created [, latest, parent, first, client]}
--       the state comes where this use has confirmed it
local generation = tonumber(ARGV[1])
local token = redis.call('HMGET', KEYS[1], 'latest', 'confirmed', 'created', 'revoked', 'parent', 'first',
  'client')
local user = redis.call('HMGET', KEYS[2], 'username', 'name', 'created', 'disabled')

if token[4] == 'reused' then return { 'reused' } end
if token[4] then return { 'revoked' } end
if not token[1] or not user[1] then
  local time = redis.call('TIME')
  return { 'missing', string.format('%.0f', time[1] * 1000000 + time[2]) }
end
if user[4] == '1' then return { 'disabled' } end

local latest = tonumber(token[1])
if generation < latest then return { 'superseded', token[3], user[1], user[2], user[3] } end
if generation == latest and token[2] ~= '1' then
  redis.call('HSET', KEYS[1], 'confirmed', '1')
  return { 'good', token[3], user[1], user[2], user[3], token[1], token[5], token[6], token[7] }
end
return { 'good', token[3], user[1], user[2], user[3] }
