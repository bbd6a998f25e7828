--[[
  Sets a tombstone in place of the state.

  Input:
    KEYS[1] token
    ARGV[1] seconds to keep it   ARGV[2] 'reused' for a theft that the record does not know yet (see rotate.lua), else '1'
    ARGV[3] 'note' leaves a tombstone as it is; otherwise absent
  Output:
    nothing
  Errors: none of its own
]]
if ARGV[3] == 'note' and redis.call('HMGET', KEYS[1], 'revoked')[1] then return end
-- Redis at its limit of memory lets a script write on that has freed something: a tombstone for a state, but no note.
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('DEL', KEYS[1]) end
redis.call('HSET', KEYS[1], 'revoked', ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[1])
