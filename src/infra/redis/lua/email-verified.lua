--[[
  Whether the e-mail address of a user is verified. No field of its own says so at a check, because each field that is
  asked for costs something. `disabled` does: '1' for a disabled user, '2' for another one, '3' for one whose address is
  verified. 1.0.0 takes all but '1' for an enabled user, and writes '0', since it does not know whether the address is
  verified. Then `verified` decides, which 1.0.0 leaves as it is: `insteadOfZero` says what `disabled` would be. The field
  holds the version as of which the address is verified. If it is not, the field is absent, or empty, because the ACL of
  docs/operating.md allows no HDEL. A trigger gives each change of that a new version, so 1.0.0 cannot keep up an address
  that is verified no longer.

  Input:
    userKey    an enabled user
]]
local function insteadOfZero(userKey)
  local stored = redis.call('HMGET', userKey, 'verified', 'version')
  if not stored[1] then return '2' end
  return stored[1] == stored[2] and '3' or '2'
end

