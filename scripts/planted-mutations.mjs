// Mistakes that somebody could make: each is one piece of text in one file (relative to src/) that occurs there once,
// what stands there instead, and the tests that may find it.

function inFile(file, tests, ...planted) {
  return planted.map(([name, find, replace]) => ({ file, name, find, replace, tests }));
}

const MODEL = 'model/rotation';
const TABLE = 'domain/sessions/rotation';
const OWNER = 'model/owner';
const MEMORY = 'infra/memory/session-state';
const REDIS = 'infra/redis/session-state';

const PUT_USER =
  "redis.call('HSET', KEYS[2], 'username', ARGV[10], 'name', ARGV[11], 'created', ARGV[12], 'disabled', ARGV[13])";

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
    ['a token of a lost state is theft', 'if (parent < generation && generation < first) {', 'if (false) {'],
    ['a used pair counts as lost', 'generation === parent && !state.confirmed', 'generation === parent'],
    [
      'the lead for recent is too far',
      'now > Math.max(MAX_LEAD_FOR_RECENT, window)',
      'now >= Math.max(MAX_LEAD_FOR_RECENT, window)',
    ],
    [
      'a second ahead is too far, whatever the window',
      'Math.max(MAX_LEAD_FOR_RECENT, window)',
      'MAX_LEAD_FOR_RECENT',
    ],
    ['a second ahead is too far with the window off', 'Math.max(MAX_LEAD_FOR_RECENT, window)', 'window'],
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
    'domain/sessions/rotation.ts',
    [OWNER],
    ['overlap is theft', 'if (isRecent(latest, presented)) {', 'if (false) {'],
    ['trying again is theft', 'if (generation === parent && !state.confirmed) {', 'if (false) {'],
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
      'the lead for recent is too far',
      'now <= math.max(MAX_LEAD_FOR_RECENT, window)',
      'now < math.max(MAX_LEAD_FOR_RECENT, window)',
    ],
    [
      'a second ahead is too far, whatever the window',
      'math.max(MAX_LEAD_FOR_RECENT, window)',
      'MAX_LEAD_FOR_RECENT',
    ],
    ['a second ahead is too far with the window off', 'math.max(MAX_LEAD_FOR_RECENT, window)', 'window'],
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
    [
      'the first reading of a user stays',
      PUT_USER,
      `if redis.call('EXISTS', KEYS[2]) == 0 then ${PUT_USER} end`,
    ],
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
  ...inFile(
    'domain/tokens/read-through.ts',
    ['domain/tokens/read-through'],
    ['a revoked record is put back', '!isTheirs || found.record.revokedAt !== null', '!isTheirs'],
    ['a token is rebuilt for any user', 'found?.record.userId === key.userId', 'found?.record !== undefined'],
    ['a token is rebuilt as any type', ' && found.record.type === type', ''],
    ['a record read long ago counts as new', 'found.user, answer.now', 'found.user, Number.MAX_SAFE_INTEGER'],
    ['one rebuild is enough', 'const MAX_REBUILDS = 2', 'const MAX_REBUILDS = 1'],
  ),
  ...inFile(
    'domain/tokens/revoke.ts',
    ['domain/tokens/revoke'],
    ['no tombstone is set', 'await states.revoke({ userId, tokenId });', ''],
    [
      'what the user does not have is buried',
      ')) return false;',
      ')) await states.revoke({ userId, tokenId });',
    ],
    ['any type is revoked', 'clock.now(), type)', 'clock.now())'],
  ),
  ...inFile(
    'domain/access-tokens/verify.ts',
    ['domain/access-tokens/verify'],
    ['a superseded token is good', "answer.outcome !== 'good'", "answer.outcome === 'gone'"],
    ['a session has no greatest age', 'lifetimes) <= clock.now()', 'lifetimes) < 0'],
    [
      'a session may be presented as an LLT',
      "type === 'llt' ? 'llt' : 'session', () =>",
      "type === 'llt' ? 'session' : 'llt', () =>",
    ],
  ),
  ...inFile(
    'domain/sessions/refresh.ts',
    ['domain/sessions/refresh'],
    ['theft does not reach the record', 'await ports.endForReuse.end(idsOf(identity));', ''],
    [
      'theft is not told',
      "audit({ event: 'session.reuse_detected'",
      "void ({ event: 'session.reuse_detected'",
    ],
    [
      'a held request signs the client out',
      "new AuthError('refresh_overlap'",
      "new AuthError('invalid_token'",
    ],
    [
      'an outage signs the client out',
      "throw new AuthError('unavailable');",
      "throw new AuthError('invalid_token');",
    ],
    ['a wait is rounded down', 'Math.ceil(answer.retryAfter / 1e6)', 'Math.floor(answer.retryAfter / 1e6)'],
    ['time inside is in milliseconds', '- receivedAt) * 1000)', '- receivedAt))'],
    ['the window is in milliseconds', 'ports.retryWindow * 1_000_000', 'ports.retryWindow * 1_000'],
    ['a session has no greatest age', 'lifetimes) <= clock.now()', 'lifetimes) < 0'],
  ),
];
