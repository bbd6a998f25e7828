/** A kind of hash that is not imported, or not as it stands. */
interface Refused {
  /** How it begins, as docs/importing.md shows it. */
  begins: string;
  pattern: RegExp;
  /** Who writes it. */
  whose: string;
  /** What the operator can do. */
  remedy: string;
}

const RESET = 'write null, and let the user reset the password';

/** The first that fits is named. A test compares the table with docs/importing.md. */
export const NEAREST: readonly Refused[] = [
  {
    begins: '32, 40, 64 or 128 hexadecimal digits',
    pattern: /^([0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}|[0-9a-f]{128})(:.*)?$/i,
    whose: 'MD5 or SHA with a salt elsewhere or none: Magento, Joomla, vBulletin',
    remedy: RESET,
  },
  {
    begins: '`userPassword::`, `e1NTSEF9`…',
    pattern: /^userPassword:|^e[0-3][A-Za-z0-9+/]{5,}={0,2}$/,
    whose: 'LDIF',
    remedy: 'write what stands behind `userPassword:`, and decode it from base64 if two colons stood there',
  },
  {
    begins: 'a space or line break',
    pattern: /\s/,
    whose: 'text that was wrapped or cut out of a larger one',
    remedy: 'write the hash alone, on one line',
  },
  {
    begins: '`$S$`, `U$S$`, `U$P$`',
    pattern: /^(U?\$S|U\$[PH])\$/,
    whose: 'Drupal 7 to 10.0',
    remedy: RESET,
  },
  {
    begins: '`$H\\2y$`, `$CP$`',
    pattern: /^\$(\w+\\|CP\$)/,
    whose: 'phpBB, which has hashed an older hash again',
    remedy: RESET,
  },
  {
    begins: '`$1$`, `$apr1$`',
    pattern: /^(\{crypt\})?\$(1|apr1)\$/i,
    whose: 'MD5 of crypt(3)',
    remedy: RESET,
  },
  { begins: '`$5$`, `$6$`', pattern: /^(\{crypt\})?\$[56]\$/i, whose: 'SHA-2 of crypt(3)', remedy: RESET },
  {
    begins: '`$y$`, `$7$`',
    pattern: /^(\{crypt\})?\$(g?y|7)\$/i,
    whose: 'yescrypt of crypt(3)',
    remedy: RESET,
  },
  {
    begins: '`$2$`, `$2x$`',
    pattern: /^\$2x?\$/,
    whose: 'bcrypt before 2011, with errors of its time',
    remedy: RESET,
  },
  {
    begins: '`$argon2i$m=`, `$v=16$`',
    pattern: /^(argon2)?\$argon2(id|i|d)\$(m=|v=16\$)/,
    whose: 'argon2 before version 1.3',
    remedy: RESET,
  },
  {
    begins: '`1|$2y$`, `3|$argon2id$`',
    pattern: /^\d\|\$/,
    whose: 'Nextcloud',
    remedy: 'leave out the number and the bar in front',
  },
  {
    begins: '`{PBKDF2}10000$`, `{PBKDF2-SHA256}10000$`',
    pattern: /^\{pbkdf2(-sha\d+)?\}\d+\$/i,
    whose: 'OpenLDAP',
    remedy: 'write `$pbkdf2$`, `$pbkdf2-sha256$` or `$pbkdf2-sha512$` for what stands in braces',
  },
  {
    begins: '`{pbkdf2}`',
    pattern: /^\{pbkdf2/i,
    whose: 'Spring Security with other lengths than its defaults, or Dovecot',
    remedy: RESET,
  },
  {
    begins: '`{SHA}`, `{MD5}`, `{noop}`, `{ldap}`, any other name in braces',
    pattern: /^\{(?!(ssha|ssha256|ssha512|scrypt|bcrypt|argon2)\})[\w@.-]+\}/i,
    whose: 'LDAP, Dovecot or Spring Security, often without a salt',
    remedy: RESET,
  },
  {
    begins: '`sha1$`, `md5$`, `pbkdf2_sha1$`, `unsalted_`, `crypt$`',
    pattern: /^(sha1|md5|pbkdf2_sha1|unsalted_\w+|crypt)\$/,
    whose: "Django's older hashers",
    remedy: RESET,
  },
  {
    begins: '`pbkdf2:sha256:`, `scrypt:32768:8:1$`',
    pattern: /^(pbkdf2:|scrypt:)/,
    whose: 'Werkzeug and Flask',
    remedy: RESET,
  },
  { begins: '`:B:`, `:pbkdf2:`', pattern: /^:(A|B|pbkdf2|bcrypt):/, whose: 'MediaWiki', remedy: RESET },
  {
    begins: '`Bcrypt:$2y$`, `Argon2:$argon2i$`',
    pattern: /^(bcrypt|argon2):\$/i,
    whose: 'WoltLab Suite since 5.4',
    remedy: 'leave out the name and the colon in front',
  },
  {
    begins: '`DoubleBcrypt:`, `wcf1:`, `vb5:`',
    pattern: /^(doublebcrypt|cryptmd5|phpass|[a-z]+\d+):/i,
    whose: 'WoltLab Suite, with a hash of before 5.4 or of another board',
    remedy: RESET,
  },
  {
    begins: '`SCRAM-SHA-256$`, `md5` and 32 hexadecimal digits',
    pattern: /^(SCRAM-SHA-256\$|md5[0-9a-f]{32}$)/i,
    whose: 'a role of PostgreSQL itself',
    remedy: RESET,
  },
  { begins: '`*94BDCEBE`…', pattern: /^\*[0-9A-F]{40}$/, whose: "MySQL's PASSWORD()", remedy: RESET },
  {
    begins: '68 characters of base64 that begin with `A`',
    pattern: /^A[A-D][A-Za-z0-9+/_-]{64}(==)?$/,
    whose: 'ASP.NET Identity, version 2',
    remedy: RESET,
  },
  {
    begins: '88 characters of base64',
    pattern: /^[A-Za-z0-9+/_-]{86}(==)?$/,
    whose: "Firebase without its project's parameters",
    remedy: 'write it as `$fbscrypt$…`',
  },
  {
    begins: 'one of the formats above',
    pattern:
      /^(argon2|bcrypt|bcrypt_sha256|pbkdf2_sha256|scrypt)?\$(argon2|2[aby]\$|wp\$|[PH]\$|pbkdf2|scrypt|fbscrypt|\d)|^(pbkdf2_sha256|scrypt|bcrypt(_sha256)?)\$|^\{(ssha|ssha256|ssha512|scrypt|bcrypt|argon2)\}|^AQAAAA/i,
    whose: 'a known system, but cut off, damaged or with base64 of two alphabets',
    remedy: 'export it again, as text and in its full length',
  },
];

/** Why a `password_hash` is not read. Holds nothing of it. */
export function nearestProblem(value: string): string {
  const found = NEAREST.find(({ pattern }) => pattern.test(value));
  return found
    ? `has none of the formats that can be imported. It looks like ${found.whose}: ${found.remedy}`
    : 'has none of the formats that can be imported';
}
