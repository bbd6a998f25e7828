// Makes every small mistake in the Lua scripts by rule: a neighbouring operator, a number off by one, an empty string, a
// statement or an early return removed. mutations.mjs runs them together with the planted ones.
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

const MODEL = 'model/rotation';
const REDIS = 'infra/redis/token-states';
const SCRIPT_CLIENT = 'infra/redis/script-client';
const FEED = 'infra/redis/revocation-feed';
const ATTEMPTS = 'infra/redis/attempt-slots';
const MARKS = 'infra/installation/redis-marks';
const LEASES = 'infra/redis/renewal-leases';

/** Scripts that other tests than the store's contract cover. */
const TESTS = {
  'rotate.lua': [REDIS, MODEL],
  'check.lua': [REDIS, MODEL, SCRIPT_CLIENT],
  'each.lua': [SCRIPT_CLIENT, REDIS],
  'announce-rebuild.lua': [REDIS, SCRIPT_CLIENT],
  'revoke.lua': [REDIS, SCRIPT_CLIENT],
  'put-user.lua': [REDIS, SCRIPT_CLIENT],
  'feed.lua': [FEED],
  'server-id.lua': [FEED, LEASES],
  'lease.lua': [LEASES],
  'reserve.lua': [ATTEMPTS],
  'release.lua': [ATTEMPTS],
  'set-mark.lua': [MARKS],
};

/** A token of Lua and its replacements. */
const RULES = [
  [/(?<=\s)==(?=\s)/g, () => ['~=']],
  [/(?<=\s)~=(?=\s)/g, () => ['==']],
  [/(?<=\s)>(?=\s)/g, () => ['>=', '<']],
  [/(?<=\s)<(?=\s)/g, () => ['<=', '>']],
  [/(?<=\s)>=(?=\s)/g, () => ['>', '<']],
  [/(?<=\s)<=(?=\s)/g, () => ['<', '>']],
  [/(?<=\s)\+(?=\s)/g, () => ['-']],
  [/(?<=\s)-(?=\s)/g, () => ['+']],
  [/(?<=\s)\*(?=\s)/g, () => ['/']],
  [/\band\b/g, () => ['or']],
  [/\bor\b/g, () => ['and']],
  [/\bnot /g, () => ['']],
  [/math\.max/g, () => ['math.min']],
  [/\b\d+\b/g, (number) => [String(Number(number) + 1)]],
  [/'[^']*'/g, (text) => (text === "''" ? ["'x'"] : ["''"])],
  [/^\s*(?:redis\.)?call\((?:[^()]|\([^()]*\))*\)$/gm, () => ['']],
  [/^\s*if .* then return .*$/gm, () => ['']],
];

/** Mistakes without a visible effect: the reason, the change, and the line (trimmed). */
const HARMLESS = [
  [
    'fields are written together',
    'rotate.lua',
    '1 -> 2',
    'if not token[1] or not user[1] then return missing(userKey, print53(now)) end',
  ],
  ['fields are written together', 'check.lua', '1 -> 2', 'if not token[1] or not user[1] then'],
  [
    'sets the same time again',
    'announce-rebuild.lua',
    '> -> >=',
    "elseif tonumber(redis.call('HMGET', userKey, 'since')[1]) > tonumber(now) then",
  ],
  ['one µs in 10 s', 'put.lua', '10000000 -> 10000001', 'local MAX_AGE = 10000000'],
  [
    'one µs in 10 s',
    'put.lua',
    '> -> >=',
    'if time[1] * 1000000 + time[2] - tonumber(ARGV[1]) > MAX_AGE then return 0 end',
  ],
  ...['< -> <=', '60000 -> 60001'].map((change) => [
    'one ms in a minute',
    'check.lua',
    change,
    'if token[3] and now - tonumber(token[3]) < 60000 then return answer end',
  ]),
  [
    'equal generations are equal texts',
    'check.lua',
    '< -> <=',
    "if not isLongLived and not isLatest and tonumber(generation) < tonumber(token[3]) then outcome = 'superseded\\0' end",
  ],
  ['less than a ms', 'check.lua', '1000 -> 1001', 'local now = time[1] * 1000 + math.floor(time[2] / 1000)'],
  [
    'an id is behind its time',
    'release.lua',
    '1 -> 2',
    "local first, last = string.find(held or '', id, 1, true)",
  ],
  [
    'neither is an attempt',
    'release.lua',
    "'' -> 'x'",
    "local first, last = string.find(held or '', id, 1, true)",
  ],
  [
    'a key that is about to expire',
    'release.lua',
    '1 -> 2',
    "redis.call('SET', KEYS[1], held, 'PX', math.max(1, redis.call('PTTL', KEYS[1])))",
  ],
  ['one ms in the window', 'reserve.lua', '> -> >=', 'if timeOf(place) + window > now then break end'],
  ...['> -> >=', '900 -> 901'].map((change) => [
    'a thousandth of a tombstone',
    'revoke.lua',
    change,
    "return revoked == ARGV[2] and redis.call('PTTL', key) > 900 * ARGV[1]",
  ]),
  ['the detail is not read', 'rotate.lua', "'' -> 'x'", "return reply('reused', '')"],
  [
    'the detail is not read',
    'rotate.lua',
    "'' -> 'x'",
    "if generation == parent and client ~= '' and client == lastClient then return reply('repeated', '') end",
  ],
  [
    'tidying more often changes nothing',
    'feed.lua',
    '> -> >=',
    'elseif isRenewal or isAsking or #ARGV > 11 then',
  ],
  [
    'no time is before 0',
    'feed.lua',
    "'-inf' -> ''",
    "redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now - ARGV[4])",
  ],
  [
    'writes the same number again',
    'feed.lua',
    '> -> >=',
    "if last > before then redis.call('HSET', KEYS[1], 'last', string.format('%.0f', last)) end",
  ],
  [
    'a second in a minute',
    'feed.lua',
    '<= -> <',
    'if isWhole and isRenewal then isWhole = now - renewed <= tonumber(ARGV[5]) end',
  ],
  [
    'both are given or neither',
    'feed.lua',
    '5 -> 6',
    "local isRenewal, isAsking = ARGV[5] ~= '', ARGV[9] ~= ''",
  ],
  [
    'the second part of an id is not read',
    'feed.lua',
    '0 -> 1',
    "redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], string.format('%.0f-0', last), kind, key)",
  ],
  [
    'only the first of them is read',
    'feed.lua',
    '1 -> 2',
    "local first = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1)[1][1]",
  ],
  ...["if not stored[1] then return '2' end", "return stored[1] == stored[2] and '3' or '2'"].map((line) => [
    "the decoder checks for '3' only",
    'email-verified.lua',
    "'2' -> ''",
    line,
  ]),
  [
    'a user without a version is not verified either',
    'email-verified.lua',
    '1 -> 2',
    "if not stored[1] then return '2' end",
  ],
  ...[
    "return { ARGV[1], ARGV[5], ARGV[6], ARGV[7], '' }",
    "return { replica, moves, held[3] or '', held[4] or '', id }",
  ].map((line) => ['only who holds the lease reads it', 'lease.lua', "'' -> 'x'", line]),
  ['names are written together', 'put-user.lua', '2 -> 3', 'if not stored[2] then'],
  ["the decoder checks for 'clock' only", 'rotate.lua', "'stale' -> ''", "return reply('refused', 'stale')"],
];

/** @returns mutations as in planted-mutations.mjs, but with the whole mutant. */
export function luaMutants(root) {
  const folder = 'infra/redis/lua';
  const unused = new Set(HARMLESS);
  const mutants = readdirSync(join(root, 'src', folder)).flatMap((name) => {
    const source = readFileSync(join(root, 'src', folder, name), 'utf8');
    const tests = TESTS[name] ?? [REDIS];
    const isHarmful = ({ name: mutant }) => {
      const known = HARMLESS.find(
        ([, file, change, line]) => file === name && mutant.endsWith(`: ${change} in: ${line}`),
      );
      unused.delete(known);
      return !known;
    };
    return mutantsOf(source)
      .filter(isHarmful)
      .map((mutant) => ({ file: `${folder}/${name}`, tests, ...mutant }));
  });
  if (unused.size > 0)
    throw new Error(
      `these harmless mutants no longer exist, remove them from the list: ${[...unused].join('\n')}`,
    );
  return mutants;
}

function mutantsOf(source) {
  // Blanks out comments, so that line numbers stay and comments do not match.
  const code = source.replace(/--\[\[[^]*?\]\]|--.*$/gm, (comment) => comment.replace(/[^\n]/g, '#'));
  return RULES.flatMap(([pattern, replacements]) =>
    [...code.matchAll(pattern)].flatMap(({ 0: found, index }) =>
      replacements(found).map((instead) => ({
        name: nameOf(source, index, found, instead),
        mutant: source.slice(0, index) + instead + source.slice(index + found.length),
      })),
    ),
  );
}

function nameOf(source, index, found, instead) {
  const skipped = found.length - found.trimStart().length;
  const number = source.slice(0, index + skipped).split('\n').length;
  const line = source.split('\n')[number - 1].trim();
  return `line ${number}: ${found.trim()} -> ${instead || 'nothing'} in: ${line}`;
}
