--[[
  Presents a long-lived token. Notes its use once a minute, so that most checks write nothing.

  Input:
    KEYS[1] token   KEYS[2] user (one hash tag)
  Output:
    {'good', created, username, name, user's created [, used (ms)]}   the last one if this use was noted
    {'missing', now} | {'revoked'} | {'disabled'}   as in rotate.lua
  Errors: none of its own
]]
local token = redis.call('HMGET', KEYS[1], 'created', 'used', 'revoked')
local user = redis.call('HMGET', KEYS[2], 'username', 'name', 'created', 'disabled')
local time = redis.call('TIME')

if token[3] then return { 'revoked' } end
if not token[1] or not user[1] then return { 'missing', string.format('%.0f', time[1] * 1000000 + time[2]) } end
if user[4] == '1' then return { 'disabled' } end

local now = time[1] * 1000 + math.floor(time[2] / 1000)
if not token[2] or now - tonumber(token[2]) >= 60000 then
  local used = string.format('%.0f', now)
  redis.call('HSET', KEYS[1], 'used', used)
  return { 'good', token[1], user[1], user[2], user[3], used }
end
return { 'good', token[1], user[1], user[2], user[3] }
