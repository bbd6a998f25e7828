--[[
  The clock of the master that holds a key. TIME itself takes no key, so in a cluster any master could answer it.

  Input:
    KEYS[1] any key of that master
  Output:
    {seconds, µs}
  Errors: none of its own
]]
return redis.call('TIME')
