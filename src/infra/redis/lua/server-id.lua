--[[
  Names the server: another name after a restart, a failover, or behind a proxy that has changed servers. What was written
  under another name may be lost.
]]
local function serverId()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
    .. string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')
end

