// Mistakes that a change could make. Each names a file (relative to src/), a text that occurs there once, its
// replacement, and the tests that may catch it. Files that Stryker mutates (stryker.config.json) need none;
// two show that the owner model notices mistakes.

function inFile(file, tests, ...planted) {
  return planted.map(([name, find, replace]) => ({ file, name, find, replace, tests }));
}

const MODEL = 'model/rotation';
const TOGETHER = 'infra/redis/connection/together';
const OWNER = 'model/owner';
const MEMORY = 'infra/memory/token-states';
const REDIS = 'infra/redis/token-states';

const PUT_USER =
  "redis.call('HSET', KEYS[2], 'username', ARGV[10], 'name', ARGV[11], 'created', ARGV[12], 'disabled', ARGV[13])";

export const mutations = [
  ...inFile(
    'config/config.ts',
    ['config/config'],
    ['production accepts short passwords', 'config.PASSWORD_MIN_LENGTH < LEAST_PASSWORD', 'false'],
  ),
  ...inFile(
    'runtime/memory.ts',
    ['runtime/memory'],
    ['every container has a memory limit', 'limit < os.totalmem() ? limit : 0', 'limit'],
  ),
  ...inFile(
    'runtime/log-output.ts',
    ['runtime/log-output'],
    ['a blocked log grows without a bound', 'rest.length + lines.length + line.length > maxWaiting', 'false'],
    ['dropped lines are not reported', 'onResume(lost);', ''],
  ),
  ...inFile(
    'runtime/store-watch.ts',
    ['runtime/store-watch'],
    ['a store that half fails works again each time', ' || now() - failedAt < CALM', ''],
  ),
  ...inFile(
    'infra/postgres/connection.ts',
    ['config/database'],
    ['the client certificate is lost beside DATABASE_CA', '...(cert && { cert }), ', ''],
  ),
  ...inFile(
    'runtime/readiness.ts',
    ['e2e/stores-away'],
    ['Redis is blamed while PostgreSQL is down', "(isWaiting ? null : 'timeout')", "'timeout'"],
  ),
  ...inFile(
    'domain/feed/publishing.ts',
    ['domain/feed/publishing'],
    ['the end of a token is not published', 'await feed.publish([key]);', ''],
    ['a theft counts as being on record', "tombstone === 'reused'", 'false'],
  ),
  ...inFile(
    'domain/tokens/revocations.ts',
    ['domain/tokens/revocations'],
    ['a sweep publishes nothing', 'await publish(page);', ''],
    ['a renewal publishes nothing', '(keys) => feed.publish(keys)', '() => Promise.resolve()'],
  ),
  ...inFile(
    'domain/feed/catch-up.ts',
    ['domain/feed/catch-up'],
    ['a position of another epoch is good', 'epoch === from.epoch && events &&', 'events &&'],
    ['a position of the future is good', ' && from.seq <= last', ''],
  ),
  ...inFile(
    'domain/feed/fan-out.ts',
    ['domain/feed/fan-out'],
    ['a lost stream is not noticed', 'epoch !== asked.epoch || !events', '!events'],
    ['a reader that is ahead gets events twice', 'messages.slice(told - seq)', 'messages'],
  ),
  ...inFile(
    'domain/clients/secret.ts',
    ['domain/clients/secret'],
    ['a rotation ends the previous secret at once', 'return isNewest || isPrevious', 'return isNewest'],
    ['any secret of a known client is right', 'return isNewest || isPrevious', 'return client !== undefined'],
  ),
  ...inFile(
    'cli/recover.ts',
    ['cli/recover-guard'],
    ['recover runs while a replica serves', 'if (replica === null) return;', 'if (replica !== "") return;'],
  ),
  ...inFile(
    'infra/postgres/observed-pool.ts',
    ['infra/postgres/observed-pool'],
    ['a failing connection without a listener ends the replica', "this.on('error', () => undefined);", ''],
  ),
  ...inFile(
    'doctor/database.ts',
    ['doctor/database'],
    [
      'asynchronous standbys are sound',
      "if (count === 0) return ok(check, 'none is connected');",
      "return ok(check, 'none is connected');",
    ],
    ['a potential standby counts as synchronous', "state === 'quorum'", "state === 'potential'"],
  ),
  ...inFile(
    'cli/recovery-plan.ts',
    ['cli/recovery-plan'],
    ['recover assigns ids that Redis knows', 'if (missing > skip)', 'if (missing < 0)'],
  ),
  ...inFile(
    'http/caller/hidden-callers.ts',
    ['http/caller/hidden-callers'],
    ['every sample of hidden callers is reported', 'if (isFound && !wasFound)', 'if (isFound)'],
    ['clients with many private addresses are reported', ' && addresses.size <= FEW;', ';'],
    ['exempt addresses count as hidden callers', 'if (isAllowed(request, allow)) return;', ''],
  ),
  ...inFile(
    'infra/postgres/errors.ts',
    ['infra/postgres/revoked-tokens'],
    ['a standby is believed', 'if (!first || first.isStandby)', 'if (!first)'],
  ),
  // Node 24 keeps the signal of a fetch, so this mistake has an effect on earlier versions only.
  ...(Number(process.versions.node.split('.')[0]) < 24
    ? inFile(
        'verifier/feed.ts',
        ['verifier/create-verifier'],
        [
          'only the fetch gets the abort signal',
          "  signal.addEventListener('abort', hangUp);\n  while",
          '  while',
        ],
      )
    : []),
  ...inFile(
    'domain/feed/fan-out.ts',
    ['domain/feed/fan-out'],
    [
      'rejected requests do not count as late',
      '      } catch (error) {\n        noteRefusal();',
      '      } catch (error) {',
    ],
    ['a reader whose secret is gone stays', 'if (!ports.isClient(reader.client)) ', 'if (false) '],
  ),
  ...inFile(
    'domain/passwords/fair-queue.ts',
    ['domain/passwords/fair-queue'],
    ['a served key gets the next turn again', 'lines.delete(key);\n        lines.set(key, line);', ''],
    ['no key is dropped for another', 'line.length > most', 'false'],
    ['an earlier key gets no additional turn', 'isBefore ? own + 1 : own', 'own'],
  ),
  ...inFile(
    'domain/passwords/bulkhead.ts',
    ['domain/passwords/bulkhead'],
    ['a full queue makes no room', 'if (isFull()) waiting', 'if (false) waiting'],
    [
      'the wait follows the length of the queue',
      'waitOf(waiting.placeOf(key)) <=',
      'waitOf(waiting.size() + 1) <=',
    ],
    ['a dropped entry keeps its timer', 'timers.clear(timer);\n          observe', 'observe'],
  ),
  ...inFile(
    'domain/passwords/check-password.ts',
    ['domain/passwords/check-password'],
    ['a disabled user with the right password is answered early', 'matches && mayOpen', 'matches'],
    ['a wrong password takes only its own hash', 'if (cost !== done)', 'if (done === null)'],
    ['a wrong password takes its cost twice', 'if (cost !== done)', 'if (cost)'],
    ['the cost of a checked hash is not noted', 'if (hash) costs.note(hash);', ''],
  ),
  ...inFile(
    'domain/passwords/guess-forms.ts',
    ['domain/passwords/guess-forms'],
    ['a password in upper case is another one', '.trim().toLowerCase()', '.trim()'],
    ['substitutions stay', 'SUBSTITUTES[character] ?? character', 'character'],
    ['decoration has no end', 'end < characters.length - DECORATION || ', ''],
    ['a number is cut', 'if (!cutsNumber(characters, end)) ', ''],
  ),
  ...inFile(
    'domain/passwords/patterns.ts',
    ['domain/passwords/patterns'],
    ['a long unit that is repeated is a pattern', ' && lengthOf(unit) <= LONGEST_UNIT', ''],
    ['a row of keys counts in one direction', "[line, Array.from(line).reverse().join('')]", '[line]'],
    ['columns of keys are no pattern', '[...rows, ...columnsOf(rows)]', 'rows'],
    ['two neighbouring keys are a pattern', 'SHORTEST_RUN = 3', 'SHORTEST_RUN = 2'],
  ),
  ...inFile(
    'domain/passwords/policy.ts',
    ['domain/passwords/policy'],
    ['patterns are accepted', 'stems.some(isPattern)', 'false'],
    ['a common password twice is accepted', 'repeatedUnit(stem) ?? stem', 'stem'],
    ['decoration makes a password good', 'stemsOf(guess)', '[guess]'],
  ),
  ...inFile(
    'infra/crypto/common-passwords.ts',
    ['infra/crypto/common-passwords'],
    ['the upper half of the list is not searched', 'low = middle + 1', 'return false'],
  ),
  ...inFile(
    'domain/passwords/hash-costs.ts',
    ['domain/passwords/hash-costs'],
    ['the walk does not rest', 'restsUntil = clock.monotonic() + REST;', ''],
    ['the walk forgets the costs that it has seen', 'walk.seen.add(cost);', ''],
    ['nothing is ever forgotten', 'costs = seen;', ''],
  ),
  ...inFile(
    'domain/feed/fan-out.ts',
    ['domain/feed/fan-out'],
    [
      'readers that are still opening do not count',
      'open.length + opening.filter((each) => each === clientId).length',
      'open.length',
    ],
    [
      "the readers of all clients count as one client's",
      '.filter(({ client }) => client.clientId === clientId)',
      '',
    ],
  ),
  ...inFile(
    'domain/access-tokens/key-lifecycle.ts',
    ['domain/access-tokens/key-lifecycle'],
    ['long-lived tokens keep no key', 'now >= next && tokens === 0', 'now >= next'],
    ['a key is retirable at once', 'signedLast + LATE + accessTokenTtl * 1000', 'signedLast'],
    ['older long-lived tokens count for no key', '(isOlder ? count : 0)', '0'],
    ['a key that may not sign signs', '({ kid }) => active?.has(kid)', '() => true'],
    ['verifiers keep the JWKS for as long as the lead', 'Math.floor(lead / 2)', 'lead'],
  ),
  ...inFile(
    'infra/postgres/key-registry.ts',
    ['infra/postgres/key-registry'],
    ['a key that is gone keeps its times', 'if (vanished.length > 0)', 'if (false)'],
    [
      'no replica says which key signs',
      'if (signing !== null && rows.some(({ isSilent }) => isSilent))',
      'if (false)',
    ],
  ),
  ...inFile(
    'domain/clients/directory.ts',
    ['domain/clients/directory'],
    ['a load that had begun before is believed', 'next = null;\n        return', 'return'],
    ['a late answer undoes a newer one', 'if (number < loaded) return;', ''],
  ),
  ...inFile(
    'domain/access-tokens/introspect.ts',
    ['http/auth/introspect'],
    ['an outage is inactive', "error.code === 'invalid_token'", 'error.code'],
  ),
  ...inFile(
    'domain/sessions/rotation.ts',
    [OWNER],
    ['overlap is theft', 'if (isRecent(latest, presented)) {', 'if (false) {'],
    ['a retry is theft', 'if (generation === parent && !state.confirmed) {', 'if (false) {'],
  ),
  ...inFile(
    'infra/redis/lua/rotate.lua',
    [MODEL, REDIS],
    ['5 s elapsed are too long', 'elapsed > MAX_ELAPSED', 'elapsed >= MAX_ELAPSED'],
    ['a tombstone is ignored', "if token[7] then return 'revoked' end", ''],
    [
      'a send time in the future reduces elapsed time',
      'math.max(0, now - tonumber(args[7]))',
      '(now - tonumber(args[7]))',
    ],
    ['a disabled user refreshes', "if user[4] == '1' then return 'disabled' end", ''],
    ['lost state is not noticed', 'math.max(known, generation)', 'known'],
    ['digits get lost', "string.format('%.0f', number)", 'tostring(number)'],
    ['two pairs of one microsecond share a generation', 'math.max(latest + 1, now)', 'math.max(latest, now)'],
    ['a minute ahead is too far', 'latest - now > MAX_LEAD ', 'latest - now >= MAX_LEAD '],
    [
      'a refused answer moves the state',
      "      latest = known\n      return reply('refused', 'clock')",
      "      redis.call('HSET', keys[1], 'latest', print53(latest))\n      return reply('refused', 'clock')",
    ],
    ['first is forgotten', 'newFirst or latest', 'latest'],
    ['first is not written', ", 'first', print53(first),", ','],
    ['the client is not written', "'confirmed', confirmed, 'client', client)", "'confirmed', confirmed)"],
    ['the expiry of the session is not renewed', "  redis.call('EXPIRE', keys[1], args[5])\n", ''],
    ['the expiry of its user is not renewed', "  redis.call('EXPIRE', keys[2], args[5])\n", ''],
    [
      'the lead for recent is too far',
      'now <= math.max(MAX_LEAD_FOR_RECENT, window)',
      'now < math.max(MAX_LEAD_FOR_RECENT, window)',
    ],
    [
      'a second ahead is too far for any window',
      'math.max(MAX_LEAD_FOR_RECENT, window)',
      'MAX_LEAD_FOR_RECENT',
    ],
    ['a second ahead is too far with the window off', 'math.max(MAX_LEAD_FOR_RECENT, window)', 'window'],
    ['an overlap to the microsecond does not count', 'now - elapsed <= latest', 'now - elapsed < latest'],
    ['the window closes a microsecond early', 'now - latest <= window', 'now - latest < window'],
    ['two unknown clients are the same', " and client ~= ''", ''],
    ['any client may retry', ' and client == lastClient', ''],
    ['the first since the parent counts as lost', 'generation < first then', 'generation <= first then'],
    ['a used pair counts as lost', " and confirmed ~= '1'", ''],
    ['theft leaves the state', "redis.call('DEL', keys[1])\n", ''],
    ['theft leaves no tombstone', "redis.call('HSET', keys[1], 'revoked', 'reused')\n", ''],
    ['the tombstone of a theft lives short', "'EXPIRE', keys[1], args[6]", "'EXPIRE', keys[1], args[5]"],
  ),
  ...inFile(
    'infra/redis/lua/check.lua',
    [MODEL, REDIS],
    ['a tombstone is ignored', "if token[2] then return 'revoked' end", ''],
    ['a disabled user is let in', "if user[4] == '1' then return 'disabled' end", ''],
    ['the latest is refused', 'presented < latest', 'presented <= latest'],
    ['lost state is confirmed', 'presented > latest or ', ''],
    ['nothing is confirmed', "redis.call('HSET', keys[1], 'confirmed', '1')", ''],
    ['the use is noted every ten minutes', '60000', '600000'],
    ['every use is noted', '< 60000', '< 0'],
  ),
  ...inFile(
    'infra/redis/lua/each.lua',
    [TOGETHER, REDIS],
    ['one bad key fails all tokens', 'if not isAnswered then', 'if not isAnswered then error(reply)'],
    ["a token gets its neighbor's outcome", 'replies[i] = reply', 'replies[#KEYS / 2 + 1 - i] = reply'],
    ['a demoted master keeps its clients', 'if string.find(reply, code)', 'if false'],
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
    ['the old state stays', "redis.call('DEL', KEYS[1])", ''],
    ['a tombstone stays for ever', "redis.call('EXPIRE', KEYS[1], ARGV[1])", ''],
    ['no tombstone is set', "redis.call('HSET', KEYS[1], 'revoked', ARGV[2])", ''],
  ),
  ...inFile(
    'infra/redis/lua/last-uses.lua',
    [REDIS],
    ['the use of a long-lived token is not told', "'latest', 'used'", "'latest', 'nothing'"],
  ),
  ...inFile(
    'infra/redis/token-states.ts',
    [REDIS],
    ['a request that is late by our clock is retried', ' && inside() <= MAX_ELAPSED', ''],
    ['the first try does not count as time inside', 'present(inside())', 'present(elapsed)'],
  ),
  ...inFile(
    'infra/memory/token-states.ts',
    [MEMORY],
    ['what was read long ago is taken', 'time - asOf > MAX_PUT_AGE', 'false'],
    ['what stands there is overwritten', 'if (living(tokens, nameOf(key), time)) return false;', ''],
    ['a tombstone lives short', 'const tombstoneTtl = 2 * stateTtl', 'const tombstoneTtl = stateTtl'],
    ['theft leaves no tombstone', "if (answer.outcome === 'reused') keep(key, 'reused', tombstoneTtl);", ''],
    ['a token is found for any user', '`${userId}:${tokenId}`', '`${tokenId}`'],
  ),
  ...inFile(
    'infra/postgres/stolen-tokens.ts',
    ['infra/postgres/token-store'],
    ['long-lived tokens outlive a theft', ': [session, ...ended]', ': [session]'],
    [
      'the stolen generation itself is spared',
      'Number(row.created_generation) >= from',
      'Number(row.created_generation) > from',
    ],
    ['every generation ends', 'Number(row.created_generation) >= from', 'true'],
    ['tokens of all sessions end', ' AND created_by = ${session})', ')'],
    ['a session of another user ends', 'WHERE user_id = ${owner}\n      AND', 'WHERE'],
    ['an unknown generation ends none', '? Infinity : 0)', '? Infinity : Infinity)'],
    ['an unknown generation always ends all', '? Infinity : 0)', '? 0 : 0)'],
    [
      'the first reason is overwritten',
      'stolen.is_revoked ? ended : [session, ...ended]',
      '[session, ...ended]',
    ],
  ),
  ...inFile(
    'infra/postgres/stolen-tokens.ts',
    ['races/theft'],
    ['a token that is being created is not waited for', 'await lockUser(tx, userId);', ''],
  ),
  ...inFile(
    'domain/long-lived-tokens/create.ts',
    ['domain/long-lived-tokens/create'],
    ['LLT_ENABLED is ignored', "if (!enabled) throw new AuthError('llt_disabled');", ''],
    ['LLT_LOGIN_MAX_AGE is ignored', 'if (loginMaxAge > 0 && ', 'if (false && '],
    ['LLT_LOGIN_MAX_AGE is in milliseconds', 'loginMaxAge * 1000', 'loginMaxAge'],
    ['no token expires', 'longLivedExpiry(createdAt, maxAge)', 'null'],
    ['its creator is unknown', 'kid, expiresAt, createdBy }', 'kid, expiresAt }'],
  ),
  ...inFile(
    'http/auth/verify.ts',
    ['http/auth/verify'],
    ['a path that a proxy appends is unknown', "'/api/auth/verify/*'", "'/api/auth/verify/-'"],
    ['a proxy has to send a body that we know', '[app.auth.principal, answer]', 'app.auth.principal'],
  ),
  ...inFile(
    'infra/postgres/caller-lock.ts',
    ['infra/postgres/token-store', 'races/effects'],
    ['a caller that has ended acts', 'if (caller?.revokedAt !== null)', 'if (caller === undefined)'],
    ['a caller of another user acts', 'WHERE user_id = ${BigInt(userId)} AND id', 'WHERE id'],
    [
      'a disabled user acts',
      'if (!(await lockUser(tx, userId))) throw',
      'if ((await lockUser(tx, userId)) === null) throw',
    ],
    ['the caller may end meanwhile', 'ORDER BY id FOR NO KEY UPDATE', 'ORDER BY id'],
  ),
  ...inFile(
    'http/verified-tokens.ts',
    ['http/verified-tokens'],
    [
      'a cached token keeps its whole header in memory',
      'young.set(copyOf(token), identity);',
      'young.set(token, identity);',
    ],
    ['the cache has no bound', 'if (young.size >= capacity) {', 'if (false) {'],
  ),
  ...inFile(
    'http/token-codec.ts',
    ['http/token-codec'],
    [
      'a token does not expire once it was verified',
      'acceptsExpired || !hasExpired(known, clock.now())',
      'true',
    ],
    ['a token of another type passes once it was verified', 'known && isOf(known, types)', 'known'],
  ),
  ...inFile(
    'http/plugins/authenticate.ts',
    ['attack/held-bodies'],
    ['a token that expired meanwhile is good', 'if (hasExpired(bearer, clock.now()))', 'if (false)'],
    [
      'the session is checked before the body',
      'preValidation: async (request) => {',
      'preParsing: async (request) => {',
    ],
  ),
  ...inFile(
    'domain/access-tokens/verify.ts',
    ['domain/access-tokens/verify'],
    ['a superseded token is good', "answer.outcome !== 'good'", "answer.outcome === 'gone'"],
    ['a session has no greatest age', 'lifetimes) <= clock.now()', 'lifetimes) < 0'],
    ['a session may be presented as an LLT', "bearer.type === 'llt'", "bearer.type !== 'llt'"],
  ),
  ...inFile(
    'verifier/revocations.ts',
    ['verifier/revocations'],
    ['a heartbeat during a snapshot counts', 'else if (known && !began)', 'else if (known)'],
    ['half a snapshot counts as a whole', 'if (!snapshot.isLast) return;', ''],
    ['a bucket goes when it closes', 'const until = closes + kept * 1000;', 'const until = closes;'],
    ['nothing is ever forgotten', 'buckets[0].until <= now', 'false'],
  ),
  ...inFile(
    'verifier/read-jwt.ts',
    ['verifier/read-jwt'],
    ['the token decides on the algorithm', 'found?.algorithm !== alg', '!found'],
    ['long-lived tokens are taken anyway', "tokenType === 'llt' && !acceptLongLived", 'false'],
  ),
  ...inFile(
    'verifier/create-verifier.ts',
    ['verifier/create-verifier'],
    [
      'long-lived tokens are taken unseen',
      'if (!mayTrust || !longLived.isKnown(verified)) {',
      'if (!mayTrust) {',
    ],
    ['maxStaleness Infinity admits any staleness', 'staleness === Infinity || ', ''],
    [
      'tokens older than the kept revocations are judged',
      'clock.now() / 1000 - iat <= revocations.kept()',
      'true',
    ],
    [
      'a revocation during introspection is ignored',
      '      // It may have been revoked while Latchkey answered.\n      refuseRevoked(verified);\n',
      '',
    ],
  ),
  ...inFile(
    'verifier/long-lived-tokens.ts',
    ['verifier/long-lived-tokens'],
    ['an answer from before a snapshot is kept', 'snapshots === before && ', ''],
    ['an answer from before a revocation is kept', ' && !revocations.includes(verified)', ''],
  ),
  ...inFile(
    'verifier/feed.ts',
    ['verifier/feed'],
    ['a silent connection is kept', "connection.abort(new Error('the feed is silent'));", ''],
    ['a malformed event is skipped', '      lastEventId = null;\n      throw error;\n', ''],
  ),
  ...inFile(
    'verifier/key-set.ts',
    ['verifier/key-set'],
    ['an outage is the token’s fault', 'if (hasFailed || !keys)', 'if (!keys)'],
    ['unknown keys are looked for each time', 'clock.monotonic() - lookedAt >= COOLDOWN', 'true'],
  ),
  ...inFile(
    'composition/audit.ts',
    ['http/audit'],
    ['a limit leaves an event for each request', 'if ((windows.get(key) ?? -Infinity) > now) return;', ''],
    ['a lost audit event is logged each time', 'if (reason !== failing)', 'if (reason !== null)'],
  ),
  ...inFile(
    'http/caller/source.ts',
    ['http/audit'],
    ['the audit trail keeps e-mail addresses', "(PRIVATE.test(word) ? '[removed]' : word)", 'word'],
    [
      'the audit trail names the proxy',
      'addressOf(request)?.text ?? null',
      'request.socket.remoteAddress ?? null',
    ],
  ),
  ...inFile(
    'verifier/latchkey.ts',
    ['verifier/latchkey'],
    ['redirects are followed', "redirect: 'error', ", ''],
    ['another issuer’s metadata will do', 'if (found.issuer !== issuer)', 'if (false)'],
  ),
];
