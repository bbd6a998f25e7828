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
local revoked = {}
for _, key in ipairs(KEYS) do
  if ARGV[3] ~= 'note' or not redis.call('HMGET', key, 'revoked')[1] then
    -- Redis at its limit of memory lets a script write on that has freed something: tombstones for states, but no note.
    if redis.call('EXISTS', key) == 1 then redis.call('DEL', key) end
    revoked[#revoked + 1] = key
  end
end
for _, key in ipairs(revoked) do
  redis.call('HSET', key, 'revoked', ARGV[2])
  redis.call('EXPIRE', key, ARGV[1])
end
