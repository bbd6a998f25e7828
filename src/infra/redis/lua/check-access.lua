--[[
  Presents an access token. The same rules as `checkAccess` in rotation.ts: its first use confirms that the client holds
  the pair.

  Input:
    KEYS[1] token   KEYS[2] user (one hash tag)
    ARGV[1] generation
  Output:
    {'good' or 'superseded', created, username, name, user's created [, latest, parent, first, client]}
      the last four if this use confirmed the pair
    {'missing', now} | {'revoked'} | {'reused'} | {'disabled'}   as in rotate.lua
  Errors: none of its own
]]
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
