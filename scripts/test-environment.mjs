// The part of the caller's environment that tests see: paths of programs and folders, and the tests' own settings. Any
// other variable (DATABASE_URL, PORT, PGUSER, OTEL_*, NODE_OPTIONS, npm's own) would change the tested behaviour.

/** Node, the shell and the system; the second line is for Windows. */
const NAMES = [
  ...['PATH', 'HOME', 'USER', 'LOGNAME', 'TMPDIR', 'TERM', 'NO_COLOR', 'FORCE_COLOR', 'XDG_RUNTIME_DIR'],
  ...[
    'Path',
    'PATHEXT',
    'SystemRoot',
    'windir',
    'ComSpec',
    'TEMP',
    'TMP',
    'USERPROFILE',
    'APPDATA',
    'LOCALAPPDATA',
  ],
  ...['CI', 'SCREENSHOTS'],
];

/** The settings of our suites, and of tap. */
const PREFIXES = /^(TEST|FUZZ|FEED|TAP)_/;

/** Access to a registry: only a suite that builds an image needs it. */
const NETWORK =
  /^(https?_proxy|no_proxy|ssl_cert_(file|dir)|node_extra_ca_certs|npm_config_(registry|cafile))$/i;

/** @param {{ network?: boolean }} options network: true for suites that download */
export function testEnvironment(env, { network = false } = {}) {
  const isPassed = (name) => NAMES.includes(name) || PREFIXES.test(name) || (network && NETWORK.test(name));
  return Object.fromEntries(Object.entries(env).filter(([name]) => isPassed(name)));
}
