--[[
  The lease of the replica that renews the tombstones of this master (domain/tokens/lease.ts). Reads it; given a move, sets
  it, unless somebody has moved it since the caller last saw it.

  Includes:
    before: server-id.lua
  Input:
    KEYS[1] lease
    ARGV[1], ARGV[2] replica and moves as last seen, '' for no lease
    ARGV[3] seconds to keep it   ARGV[4] replica   ARGV[5] moves   ARGV[6] server   ARGV[7] full; no ARGV only reads
  Output:
    {id of the server, replica, moves, server, full} as it stands now; '' for what is not there
  Errors: none of its own
]]
local function held()
  local fields = redis.call('HMGET', KEYS[1], 'replica', 'moves', 'server', 'full')
  return fields[1] or '', fields[2] or '', fields[3] or '', fields[4] or ''
end

local replica, moves = held()
if #ARGV > 0 and replica == ARGV[1] and moves == ARGV[2] then
  -- First, because Redis at its limit of memory lets a script write on after it.
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], 'replica', ARGV[4], 'moves', ARGV[5], 'server', ARGV[6], 'full', ARGV[7])
  redis.call('EXPIRE', KEYS[1], ARGV[3])
end
return { serverId(), held() }
