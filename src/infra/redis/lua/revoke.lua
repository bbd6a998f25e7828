--[[
  Sets tombstones in place of states.

  Input:
    KEYS[1...] tokens
    ARGV[1] seconds to keep them   ARGV[2] 'reused' for a theft that the record does not know yet (see rotate.lua), else '1'
    ARGV[3] 'note' leaves a tombstone as it is; otherwise absent
  Output:
    nothing
  Errors: none of its own
]]
local function isKept(key)
  -- The key may hold anything: an error is no tombstone.
  local revoked = redis.pcall('HMGET', key, 'revoked')[1]
  if ARGV[3] == 'note' then return type(revoked) == 'string' end
  -- Renewals come each second. They write, and so replicate, only what is missing or has lost a tenth of its time.
  return revoked == ARGV[2] and redis.call('PTTL', key) > 900 * ARGV[1]
end

local revoked = {}
for _, key in ipairs(KEYS) do
  if not isKept(key) then
    -- Redis at its limit of memory lets a script write on after a DEL, also of no key: so it takes every tombstone, but no
    -- note.
    if ARGV[3] ~= 'note' then redis.call('DEL', key) end
    revoked[#revoked + 1] = key
  end
end
for _, key in ipairs(revoked) do
  redis.call('HSET', key, 'revoked', ARGV[2])
  redis.call('EXPIRE', key, ARGV[1])
end
