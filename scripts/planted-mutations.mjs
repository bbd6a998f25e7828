// Mistakes that somebody could make: each is one piece of text in one file (relative to src/) that occurs there once,
// what stands there instead, and the tests that may find it.

function inFile(file, tests, ...planted) {
  return planted.map(([name, find, replace]) => ({ file, name, find, replace, tests }));
}

const MODEL = 'model/rotation';
const TABLE = 'domain/sessions/rotation';
const MEMORY = 'infra/memory/session-state';
const REDIS = 'infra/redis/session-state';

export const mutations = [
  ...inFile(
    'domain/sessions/rotation.ts',
    [TABLE, MODEL],
    ['5 s inside are too long', 'elapsed > MAX_ELAPSED', 'elapsed >= MAX_ELAPSED'],
    ['lost state is not noticed', 'Math.max(state.latest, generation)', 'state.latest'],
    ['anybody may retry', " && client !== '' && client === state.client", ''],
    ['nobody is the same as nobody', " && client !== ''", ''],
    ['a late duplicate is told to come at once', 'latest + window - now', '0'],
    ['the first since the parent counts as lost', 'generation < first)', 'generation <= first)'],
    ['the parent counts as lost', 'parent < generation &&', 'parent <= generation &&'],
    ['lost state keeps the old parent', 'parent: generation, first, now', 'parent, first, now'],
    ['a used pair counts as lost', 'generation === parent && !state.confirmed', 'generation === parent'],
    ['a second ahead is too far', 'now > MAX_LEAD_FOR_RECENT', 'now >= MAX_LEAD_FOR_RECENT'],
    ['what overlaps to the microsecond does not', 'now - elapsed <= latest', 'now - elapsed < latest'],
    ['the window closes a microsecond early', 'now - latest <= window', 'now - latest < window'],
    ['a minute ahead is too far', 'latest - now > MAX_LEAD)', 'latest - now >= MAX_LEAD)'],
    ['two pairs of one microsecond are one', 'Math.max(latest + 1, now)', 'Math.max(latest, now)'],
    ['first is forgotten', 'first: first ?? next', 'first: next'],
    ['a new pair counts as used', 'first ?? next, confirmed: false', 'first ?? next, confirmed: true'],
    ['the latest access token is refused', 'generation < state.latest', 'generation <= state.latest'],
    ['lost state is confirmed', 'generation > state.latest || state.confirmed', 'state.confirmed'],
  ),
  ...inFile(
    'infra/redis/lua/rotate.lua',
    [MODEL, REDIS],
    ['5 s inside are too long', 'elapsed > MAX_ELAPSED', 'elapsed >= MAX_ELAPSED'],
    ['a tombstone is not looked at', "if token[7] then return { 'revoked' } end", ''],
    ['a disabled user refreshes', "if user[4] == '1' then return { 'disabled' } end", ''],
    ['lost state is not noticed', 'math.max(known, generation)', 'known'],
    ['digits get lost', "string.format('%.0f', number)", 'tostring(number)'],
    ['two pairs of one microsecond are one', 'math.max(latest + 1, now)', 'math.max(latest, now)'],
    ['a minute ahead is too far', 'latest - now > MAX_LEAD ', 'latest - now >= MAX_LEAD '],
    [
      'a refused answer moves the state',
      "    latest = known\n    return reply('refused', 'clock')",
      "    redis.call('HSET', KEYS[1], 'latest', print53(latest))\n    return reply('refused', 'clock')",
    ],
    ['first is forgotten', 'newFirst or latest', 'latest'],
    ['first is not written', ", 'first', print53(first),", ','],
    ['the client is not written', "'confirmed', confirmed, 'client', client)", "'confirmed', confirmed)"],
    ['the session is kept no longer', "  redis.call('EXPIRE', KEYS[1], ARGV[5])\n", ''],
    ['its user is kept no longer', "  redis.call('EXPIRE', KEYS[2], ARGV[5])\n", ''],
    [
      'a second ahead is too far',
      'latest - now <= MAX_LEAD_FOR_RECENT',
      'latest - now < MAX_LEAD_FOR_RECENT',
    ],
    ['what overlaps to the microsecond does not', 'now - elapsed <= latest', 'now - elapsed < latest'],
    ['the window closes a microsecond early', 'now - latest <= window', 'now - latest < window'],
    ['nobody is the same as nobody', " and client ~= ''", ''],
    ['anybody may retry', ' and client == lastClient', ''],
    ['the first since the parent counts as lost', 'generation < first then', 'generation <= first then'],
    ['a used pair counts as lost', " and confirmed ~= '1'", ''],
    ['theft leaves the state', "redis.call('DEL', KEYS[1])\n", ''],
    ['theft leaves no tombstone', "redis.call('HSET', KEYS[1], 'revoked', '1')\n", ''],
    ['the tombstone of a theft lives short', "'EXPIRE', KEYS[1], ARGV[6]", "'EXPIRE', KEYS[1], ARGV[5]"],
  ),
  ...inFile(
    'infra/redis/lua/check-access.lua',
    [MODEL, REDIS],
    ['a tombstone is not looked at', "if token[4] then return { 'revoked' } end", ''],
    ['a disabled user is let in', "if user[4] == '1' then return { 'disabled' } end", ''],
    ['the latest is refused', 'generation < latest', 'generation <= latest'],
    ['lost state is confirmed', 'generation == latest and', 'generation >= latest and'],
    ['nothing is confirmed', "redis.call('HSET', KEYS[1], 'confirmed', '1')", ''],
  ),
  ...inFile(
    'infra/redis/lua/check-long-lived.lua',
    [REDIS],
    ['a tombstone is not looked at', "if token[3] then return { 'revoked' } end", ''],
    ['the use is noted every ten minutes', '60000', '600000'],
    ['every use is noted', '>= 60000', '>= 0'],
  ),
  ...inFile(
    'infra/redis/lua/put.lua',
    [REDIS],
    ['what was read long ago is taken', '> MAX_AGE', '> 2 * MAX_AGE'],
    ['what stands there is overwritten', "if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end", ''],
    ['an old user is put over the new', "if redis.call('EXISTS', KEYS[2]) == 0 then", 'do'],
    ['the user is kept no longer', "redis.call('EXPIRE', KEYS[2], ARGV[2])", ''],
    ['the use is forgotten', "if ARGV[3] ~= '' then", 'if false then'],
    ['the session stays for ever', "redis.call('EXPIRE', KEYS[1], ARGV[2])", ''],
  ),
  ...inFile(
    'infra/redis/lua/revoke.lua',
    [REDIS],
    ['what stood there stays', "redis.call('DEL', KEYS[1])", ''],
    ['a tombstone stays for ever', "redis.call('EXPIRE', KEYS[1], ARGV[1])", ''],
    ['no tombstone is set', "redis.call('HSET', KEYS[1], 'revoked', '1')", ''],
  ),
  ...inFile(
    'infra/redis/lua/last-uses.lua',
    [REDIS],
    ['the use of a long-lived token is not told', "'latest', 'used'", "'latest', 'nothing'"],
  ),
  ...inFile(
    'infra/memory/session-state.ts',
    [MEMORY],
    ['what was read long ago is taken', 'time - asOf > MAX_PUT_AGE', 'false'],
    ['what stands there is overwritten', 'if (living(tokens, nameOf(key), time)) return false;', ''],
    ['a tombstone lives short', 'const tombstoneTtl = 2 * stateTtl', 'const tombstoneTtl = stateTtl'],
    ['theft leaves no tombstone', "if (answer.outcome === 'reused') keep(key, null, tombstoneTtl);", ''],
    ['a token is found for any user', '`${userId}:${tokenId}`', '`${tokenId}`'],
  ),
];
