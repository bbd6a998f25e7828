--[[
  The lease of the replica that renews the tombstones of this master (domain/tokens/lease.ts). Reads it, or moves it,
  unless somebody has moved it since the caller last saw it.

  Includes:
    before: server-id.lua
  Input:
    KEYS[1] lease
    ARGV[1] the replica that asks   only this one: reads
    ARGV[2], ARGV[3] replica and moves as last seen, '' for no lease   ARGV[4] seconds to keep it
    ARGV[5] moves   ARGV[6] server   ARGV[7] full
  Output:
    {replica, moves, server, full, id of this server} as the lease stands now; '' for what is not there
      the id only for who reads its own lease: it costs more than all the rest
  Errors: none of its own
]]
local held = redis.call('HMGET', KEYS[1], 'replica', 'moves', 'server', 'full')
local replica, moves = held[1] or '', held[2] or ''
if replica == ARGV[2] and moves == ARGV[3] then
  -- First, because Redis at its limit of memory lets a script write on after it.
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], 'replica', ARGV[1], 'moves', ARGV[5], 'server', ARGV[6], 'full', ARGV[7])
  redis.call('EXPIRE', KEYS[1], ARGV[4])
  return { ARGV[1], ARGV[5], ARGV[6], ARGV[7], '' }
end
local id = replica == ARGV[1] and serverId() or ''
return { replica, moves, held[3] or '', held[4] or '', id }
