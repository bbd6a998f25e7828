// Mistakes in files that Stryker does not mutate (stryker.config.json). Each removes a line whose loss opens an account,
// keeps an ended token good, leaks a secret, or lets anybody stop a replica. It names a file, a text that occurs there
// once, its replacement, and the tests that may catch it.

/** Files are named below src/, tests below test/; those of the packages for services by their whole path. */
export function pathOf(file) {
  return below('src', file);
}

export function pathOfTest(test) {
  return below('test', `${test}.test.js`);
}

function below(folder, path) {
  return path.startsWith('packages/') ? path : `${folder}/${path}`;
}

function inFile(file, tests, ...planted) {
  return planted.map(([name, find, replace]) => ({ file, name, find, replace, tests }));
}

export const mutations = [
  ...inFile(
    'domain/users/confirm-password.ts',
    ['http/own-account/password'],
    [
      'any password confirms',
      "if (await checkPassword({ hash, password, earlier, mayOpen: true, share: 'known', turn }))\n        return account;",
      "await checkPassword({ hash, password, earlier, mayOpen: true, share: 'known', turn }); return account;",
    ],
  ),
  ...inFile(
    'http/token-codec.ts',
    ['http/token-codec'],
    ['a refresh token needs no signature', '!timingSafeEqual(given, own)', 'false'],
    ['a token of another type passes once it was verified', 'known && isOf(known, kinds)', 'known'],
    [
      'a token does not expire once it was verified',
      'acceptsExpired || !(hasExpired(found, now) || isTooOld(found, now, lifetimes))',
      'true',
    ],
  ),
  ...inFile(
    'http/plugins/authenticate-service.ts',
    ['http/plugins/authenticate-service'],
    ['a secret that was good once stays good', 'services.refusalOf(known, right) === null', 'true'],
  ),
  ...inFile(
    'http/auth/token.ts',
    ['http/auth/assertions'],
    ['a secret opens the client of another id', 'id !== undefined && id !== service.serviceId', 'false'],
  ),
  ...inFile(
    'http/auth/token.ts',
    ['http/auth/exchange'],
    ['any bearer asks for the token of another', 'bearer === subject)', 'true)'],
  ),
  ...inFile(
    'infra/crypto/foreign-hash.ts',
    ['infra/crypto/foreign-hash'],
    ['a key of one byte opens', 'key.length >= SHORTEST_KEY && ', ''],
  ),
  ...inFile(
    'infra/crypto/hashed-texts.ts',
    ['infra/crypto/hashed-texts'],
    ['WordPress hashes a quote without its slash', "password.replace(/['\"\\\\]/g, '\\\\$&')", 'password'],
    ['phpBB hashes what it was sent', 'ENTITIES[character] ?? character', 'character'],
  ),
  ...inFile(
    'infra/issuers/check-assertion.ts',
    ['infra/issuers/check-assertion', 'http/auth/assertions'],
    [
      'the signature of an assertion does not count',
      "(await isSigned(assertion, key, wanted.alg)) ? null : 'signature'",
      'null',
    ],
    [
      'an assertion opens the client of another id',
      'serviceId === undefined || serviceId === identity',
      "serviceId !== '' || serviceId === identity",
    ],
  ),
  ...inFile(
    'infra/issuers/jwks.ts',
    ['infra/issuers/jwks'],
    ['a file may hold secret keys', 'if (secret >= 0)', 'if (false)'],
  ),
  ...inFile(
    'infra/memory/token-states.ts',
    ['infra/memory/token-states'],
    ['a token is found for any user', '`${userId}:${tokenId}`', '`${tokenId}`'],
    ['theft leaves no tombstone', "if (answer.outcome === 'reused') keep(key, 'reused', tombstoneTtl);", ''],
  ),
  ...inFile(
    'infra/postgres/account-store.ts',
    ['http/accounts/accounts'],
    [
      'disabling ends no token',
      '? await endTokens(tx, Number(before.id), endsAll(at))',
      '? { ended: [], before: null }',
    ],
  ),
  ...inFile(
    'infra/postgres/account-store.ts',
    ['http/auth/password-reset'],
    [
      'disabling leaves the reset token good',
      'if (changes.disabled === true) await voidReset(tx, before.id);',
      '',
    ],
  ),
  ...inFile(
    'infra/postgres/caller-lock.ts',
    ['infra/postgres/token-store'],
    ['a caller that has ended acts', 'if (caller?.revokedAt !== null)', 'if (caller === undefined)'],
    ['a disabled user acts', 'if (locked?.user.disabled !== false)\n    throw', 'if (locked === null) throw'],
  ),
  ...inFile(
    'infra/postgres/caller-lock.ts',
    ['attack/old-sessions'],
    [
      'a session without the second factor opens the account for good',
      '!withFactor || openedBy < since',
      'openedBy < since',
    ],
    ['a session of a removed factor does', '!withFactor || openedBy < since', '!withFactor'],
  ),
  ...inFile(
    'infra/postgres/factor-changes.ts',
    ['http/own-account/factors'],
    [
      'a session that is not recent changes second factors',
      'if (locked.factorSince !== null && caller.createdAt < caller.openedSince)',
      'if (caller.createdAt < 0)',
    ],
  ),
  ...inFile(
    'infra/postgres/factor-store.ts',
    ['http/own-account/factors'],
    [
      'the code that confirms a factor opens a session',
      'lastUsedAt: now, lastStep: BigInt(step) }',
      'lastUsedAt: now }',
    ],
  ),
  ...inFile(
    'infra/postgres/change-user.ts',
    ['http/own-account/change-profile', 'http/accounts/accounts'],
    ['a changed address leaves the reset token good', 'await voidReset(tx, before.id);', ''],
  ),
  ...inFile(
    'infra/postgres/change-user.ts',
    ['http/own-account/email'],
    [
      'a verified address that is left is free at once',
      'if (before.emailVerifiedAt !== null && reservation)',
      'if (false && reservation)',
    ],
  ),
  ...inFile(
    'infra/postgres/own-address.ts',
    ['http/own-account/email'],
    [
      'a session from before the factor proves another address',
      'await lockCaller(tx, caller);',
      'await lockCaller(tx, { ...caller, withFactor: null });',
    ],
    ['a proof leaves the reset token good', 'await voidReset(tx, id);', ''],
  ),
  ...inFile(
    'infra/postgres/service-store.ts',
    ['infra/postgres/service-store'],
    ['a disabled client keeps its tokens', ', version: { increment: 1 } };', ' };'],
  ),
  ...inFile(
    'infra/postgres/one-time-tokens.ts',
    ['http/auth/password-reset', 'http/own-account/email'],
    ['a one-time token never expires', ' AND ${UNEXPIRED}`;', '`;'],
    ['a token of one kind is good for another', ' AND kind = ANY(${[...kinds]}::text[])', ''],
    [
      'the token of another account proves a pending address',
      'WHERE user_id = ${userId} AND ${isToken(kinds, tokenHash)}`',
      'WHERE ${isToken(kinds, tokenHash)}`',
    ],
  ),
  ...inFile(
    'infra/postgres/password-store.ts',
    ['http/auth/password-reset', 'http/own-account/password'],
    [
      'a reset leaves tokens good',
      'caller: null, keepsCaller: false }',
      'caller: null, keepsCaller: false, keepsLongLived: true }',
    ],
    [
      'a change leaves the reset token good',
      '  await voidReset(tx, BigInt(userId));\n  return true;',
      '  return true;',
    ],
  ),
  ...inFile(
    'infra/postgres/stored-hash.ts',
    ['http/auth/log-in-imported'],
    [
      'an imported hash outlives a change of password',
      "substring(password_hash FROM 17 FOR 32) = sha256(convert_to(imported_hash, 'UTF8'))",
      'imported_hash IS NOT NULL',
    ],
  ),
  ...inFile(
    'infra/postgres/factor-store.ts',
    ['races/second-factor', 'http/auth/second-factor'],
    ['one code opens two sessions', '            lastStep: { lt: BigInt(proof.step) },\n', ''],
    [
      'any recovery code opens a session',
      "if (used.count === 0) throw new AuthError('invalid_second_factor');",
      '',
    ],
  ),
  ...inFile(
    'infra/postgres/token-store.ts',
    ['http/auth/second-factor'],
    [
      'the password alone opens an account with a second factor',
      "if (locked.factorSince !== null && !proof) throw new AuthError('second_factor_required');",
      '',
    ],
  ),
  ...inFile(
    'infra/postgres/passkey-store.ts',
    ['http/auth/passkey'],
    ['one answer of a passkey opens two sessions', '${nonce} <> ALL (used_challenges)', 'true'],
    [
      'a challenge opens a session that is older than all that are kept',
      '(cardinality(used_challenges) < ${KEPT} OR ${nonce} > used_challenges[${KEPT}])',
      'true',
    ],
    ['an account has any number of passkeys', '>= limit)', '< 0)'],
  ),
  ...inFile(
    'infra/crypto/passkey-challenge.ts',
    ['http/auth/passkey'],
    [
      'anybody signs challenges',
      'if (!macs.all().some((mac) => timingSafeEqual(mac(nonce), given))) return null;',
      '',
    ],
  ),
  ...inFile(
    'infra/postgres/passkey-store.ts',
    ['attack/old-sessions'],
    [
      'a session that is not recent begins a passkey',
      'await lockToAdd(tx, caller, settings, passwordVersion);',
      '',
    ],
    [
      'a session from before the first factor confirms a passkey',
      'const locked = await lockToAdd(tx, caller, settings);',
      'const locked = await lockToAdd(tx, { ...caller, withFactor: null, createdAt: Infinity }, settings);',
    ],
  ),
  ...inFile(
    'infra/webauthn/verify-answer.ts',
    ['attack/passkeys'],
    [
      'a passkey logs in without its PIN',
      'counter: 0 },\n          requireUserVerification: true,',
      'counter: 0 },\n          requireUserVerification: false,',
    ],
    [
      'a security key without PIN becomes a passkey',
      'requireUserPresence: true,\n          requireUserVerification: true,',
      'requireUserPresence: true,\n          requireUserVerification: false,',
    ],
    ['a frame in another site asks', 'crossOrigin !== false || ', ''],
    [
      'a passkey of another enrolment is confirmed',
      "expectedChallenge: Buffer.from(challenge).toString('base64url'),",
      'expectedChallenge: clientData.challenge,',
    ],
    [
      'a passkey has an id that nobody has signed',
      'if (!verified || info.credential.id !== answer.id) return null;',
      'if (!verified) return null;',
    ],
    [
      'an exponent stops the event loop at each login',
      "if (isRsa && publicExponent !== RSA_EXPONENT) throw new RangeError('exponent');",
      '',
    ],
  ),
  ...inFile(
    'infra/crypto/login-token.ts',
    ['http/auth/second-factor'],
    [
      'anybody signs login tokens',
      'if (!macs.all().some((mac) => timingSafeEqual(mac(claims), given))) return null;',
      '',
    ],
  ),
  ...inFile(
    'infra/postgres/token-store.ts',
    ['infra/postgres/token-store'],
    ['long-lived tokens outlive a theft', '[session, ...created.map(({ id }) => id)]', '[session]'],
  ),
  ...inFile(
    'packages/verifier/src/read-jwt.ts',
    ['packages/verifier/test/read-jwt'],
    ['the token decides on the algorithm', 'found && found.algorithm === alg', 'found'],
  ),
  ...inFile(
    'packages/verifier/src/token-cache.ts',
    ['packages/verifier/test/token-cache', 'packages/verifier/test/read-cached'],
    ['a token with another signature is found', 'entry?.token === token ? entry : undefined', 'entry'],
    ['a cached token never expires', 'exp > now - clockTolerance && ', ''],
  ),
  ...inFile(
    'packages/verifier/src/create-verifier.ts',
    ['packages/verifier/test/create-verifier'],
    [
      'a revocation during introspection is ignored',
      '      // It may have been revoked while Latchkey answered.\n      refuseRevoked(verified);\n',
      '',
    ],
  ),
  ...inFile(
    'packages/verifier/src/connection.ts',
    ['packages/verifier/test/latchkey'],
    ['redirects are followed', "redirect: 'manual', ", ''],
  ),
];
