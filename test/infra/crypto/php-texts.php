<?php
// What WordPress and phpBB make of passwords, by PHP itself, and hashes of one by password_hash(). Recorded, because
// nothing else here needs PHP: php test/infra/crypto/php-texts.php >test/infra/crypto/php-texts.ts && npm run format
// The sources that call these functions stand in src/infra/crypto/hashed-texts.ts.
$passwords = [
  "correct horse", "it's a \"secret\"", "back\\slash", "it\\'s", "Tom & <Jerry>", "Tom &amp; Jerry", "&quot;",
  "nul\0nul", " outer space ", "\t\n", "pa\u{308}sswort", "p\u{e4}sswort", "\u{fb01}le & \u{2460}", ">\u{338}<",
  "\u{feff}mark\r\nline\r", " pa\u{308}ss'\"\\&<>\0 ",
];
$lines = fn($p) => strtr($p, ["\r\n" => "\n", "\r" => "\n", "\0" => '', "\u{FEFF}" => '']);
$wordPress = fn($p) => trim(addslashes($p));
$phpBB = fn($p) => htmlspecialchars($lines($p), ENT_COMPAT, 'UTF-8');
$argon2 = ['memory_cost' => 64, 'time_cost' => 1, 'threads' => 1];
$password = " it's \"Tom & Jerry\" \\o/ ";
echo "// php-texts.php has written this: see there.\n\nexport const RECORDED = ", json_encode([
  'php' => PHP_VERSION,
  // phpBB's NFC is left to the test: Debian's php-cli has no intl.
  'texts' => array_map(fn($p) => [
    'sent' => $p, 'trimmed' => trim($p), 'wordPress' => $wordPress($p),
    'phpBB' => $phpBB($p), 'phpBB30' => $phpBB(trim($p)),
  ], $passwords),
  'password' => $password,
  'hashes' => [
    'WordPress 6.8' => '$wp' . password_hash(
      base64_encode(hash_hmac('sha384', $wordPress($password), 'wp-sha384', true)), PASSWORD_BCRYPT, ['cost' => 4]),
    'bcrypt of the password' => password_hash($password, PASSWORD_BCRYPT, ['cost' => 4]),
    'bcrypt of phpBB' => password_hash($phpBB($password), PASSWORD_BCRYPT, ['cost' => 4]),
    'argon2id of phpBB' => password_hash($phpBB($password), PASSWORD_ARGON2ID, $argon2),
    'argon2i of phpBB' => password_hash($phpBB($password), PASSWORD_ARGON2I, $argon2),
  ],
], JSON_PRETTY_PRINT | JSON_UNESCAPED_SLASHES), ";\n";
