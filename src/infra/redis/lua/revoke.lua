--[[
  Sets a tombstone in place of the state.

  Input:
    KEYS[1] token
    ARGV[1] seconds to keep it   ARGV[2] 'reused' for a theft that the record does not know yet (see rotate.lua), else '1'
  Output:
    nothing
  Errors: none of its own
]]
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'revoked', ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[1])
