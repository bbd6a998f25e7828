/**
 * What the systems that store a hash may have hashed for a password, the likeliest first. A login tries one of them, in
 * turn (docs/adr/0009), so there are at most four.
 */
export type Texts = (password: string) => string[];

/** Nobody should need more tries, and a limit of wrong ones has to leave room for them (docs/importing.md). */
const MOST_TEXTS = 4;

/**
 * Each text once: a second one would cost its owner a try. Of five alterations, hardly any password has five texts, and
 * then the last one is left out.
 */
const inTurn =
  (...alterations: ((password: string) => string)[]): Texts =>
  (password) =>
    [...new Set(alterations.map((alter) => alter(password)))].slice(0, MOST_TEXTS);

const asSent = (password: string) => password;
const nfc = (password: string) => password.normalize('NFC');
/** SASLprep (RFC 4013) and what follows it. */
const nfkc = (password: string) => password.normalize('NFKC');

/** PHP's trim(): these characters only. */
export function trimmed(password: string): string {
  // Looking behind keeps the time linear: a run of spaces is tried from its start alone.
  return password.replace(/^[ \n\r\t\v\0]+|(?<![ \n\r\t\v\0])[ \n\r\t\v\0]+$/g, '');
}

/**
 * Every value that a request sends to WordPress gets PHP's addslashes() (wp_magic_quotes in wp-includes/load.php,
 * add_magic_quotes in wp-includes/functions.php).
 */
function slashed(password: string): string {
  return password.replace(/['"\\]/g, '\\$&').replaceAll('\0', '\\0');
}

/**
 * WordPress's login form: wp_signon() in wp-includes/user.php takes the slashes off the name and leaves them in the
 * password, which wp_authenticate() and wp_hash_password() in wp-includes/pluggable.php trim.
 */
const wordPress = (password: string) => trimmed(slashed(password));

/**
 * phpBB's login form since 3.1: `untrimmed_variable('password')` in includes/functions.php goes through set_var() in
 * phpbb/request/type_cast_helper.php, which normalises last.
 */
function phpBB(password: string): string {
  const lines = password.replace(/\r\n?/g, '\n').replace(/[\0\ufeff]/g, '');
  // htmlspecialchars() with ENT_COMPAT leaves the apostrophe.
  return nfc(lines.replace(/[&"<>]/g, (character) => ENTITIES[character] ?? character));
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '"': '&quot;', '<': '&lt;', '>': '&gt;' };

/** phpBB 3.0 trims too: request_var() and set_var() in its includes/functions.php. */
const phpBB30 = (password: string) => phpBB(trimmed(password));

/** Systems that hash what their form got, or a normal form of it. */
export const plainTexts = inTurn(asSent, nfc, nfkc);

/**
 * What PHP's password_hash() may have got. phpBB stores bcrypt and argon2 as well (phpbb/passwords/driver), and so does
 * WordPress: bcrypt with wp-password-bcrypt.php of roots/wp-password-bcrypt, which Bedrock has, and argon2 with the
 * filter wp_hash_password_algorithm in wp-includes/pluggable.php. Neither can be told from the others. Space around the
 * password stays, because a hash whose system may trim is never replaced, and here most systems do not.
 */
export const plainOrPhpTexts = inTurn(asSent, nfc, nfkc, phpBB, slashed);

/** WordPress hashes without slashes, but trims, for `wp core install` and plugins that take the slashes off. */
export const wordPressTexts = inTurn(
  wordPress,
  trimmed,
  (password) => wordPress(nfc(password)),
  (password) => trimmed(nfc(password)),
);

/** phpass's `$P$`: WordPress before 6.8, and libraries that alter nothing. */
export const phpassTexts = inTurn(wordPress, trimmed, asSent, (password) => wordPress(nfc(password)));

/** phpass's `$H$`, which phpBB wrote until 3.0. */
export const phpBBTexts = inTurn(phpBB30, phpBB, asSent, nfc);
