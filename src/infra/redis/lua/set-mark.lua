--[[
  Sets the mark of an installation on one master (infra/installation/redis-marks.ts), unless somebody has set another one
  since it was read: two replicas, or replicas of two databases, cannot overwrite what they have not seen.

  Input:
    KEYS[1] mark
    ARGV[1] the value as it was read, '' for none   ARGV[2] the new value   ARGV[3] expiry in seconds
  Output:
    1 if it was set, else 0
  Errors: OOM if Redis is full
]]
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
return 1
