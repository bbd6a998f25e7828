import type { Dice } from './dice.ts';
import type { Session } from './world.ts';

/** Texts that have broken other software. */
export const HOSTILE_TEXTS = [
  '',
  ' ',
  '\0',
  'a\0b',
  '\ud800',
  '\udc00x',
  '\u202eada',
  '\u200b',
  '\ufeffada',
  'İ',
  'ﷺ'.repeat(60),
  'a'.repeat(65),
  'a'.repeat(15_000),
  'Ω'.repeat(1025),
  '🔑'.repeat(1024),
  'a\u0301'.repeat(500),
  "' OR 1=1 --",
  '"; DROP TABLE users; --',
  '$(reboot)',
  '${7*7}',
  '{{7*7}}',
  '%00',
  '%s%n',
  '../../etc/passwd',
  '<script>alert(1)</script>',
  'ada@example.com',
  '@',
  '@@',
  'x@y@z',
  '__proto__',
  'constructor',
  'null',
  'NaN',
  '\r\nSet-Cookie: x=1',
  '\u2028',
  '1e999',
];

/** Credentials that the service must refuse. */
export const TOKENS: ((session: Session, dice: Dice) => string)[] = [
  (session) => `Bearer ${session.access.slice(0, -3)}AAA`,
  (session, dice) => `Bearer ${changed(session.access, dice)}`,
  (session, dice) => `Bearer ${changed(session.refresh, dice)}`,
  (session) => `Bearer ${unsigned(session.access)}`,
  (session) => `Bearer ${session.access.split('.').slice(0, 2).join('.')}.`,
  (session) => `Bearer ${session.access}.${session.access}`,
  (session) => `Bearer ${session.access} ${session.access}`,
  (session) => `Basic ${Buffer.from(`x:${session.access}`).toString('base64')}`,
  (session) => session.access,
  () => 'Bearer',
  () => 'Bearer ',
  () => 'Bearer \xff\xfe',
  () => `Bearer ${'a'.repeat(10_000)}`,
  () => `Bearer ${'.'.repeat(5000)}`,
  () => 'Bearer e30.e30.e30',
  () => 'Bearer bnVsbA.bnVsbA.bnVsbA',
  () => `Bearer ${Buffer.from('{"alg":"none","typ":"at+jwt"}').toString('base64url')}.e30.`,
  () => `Bearer ${Buffer.from('{"kid":{"toString":1},"typ":"at+jwt"}').toString('base64url')}.e30.x`,
  () => `Bearer ${Buffer.from('['.repeat(3000)).toString('base64url')}.e30.x`,
];

/** The same for services. @param good credentials that are accepted. */
export const CREDENTIALS: ((good: string, dice: Dice) => string)[] = [
  (good) => good.slice(0, -6),
  (good) => `${good}=`.repeat(2),
  (good) => good.replace('Basic', 'Bearer'),
  (good) => good.replace('Basic ', 'Basic'),
  (good) => encoded(`${decoded(good)}x`),
  (good) => encoded(decoded(good).replace(':', '')),
  (good) => encoded(decoded(good).replace(/:.*/, ':')),
  (good) => encoded(decoded(good).replace(/.*:/, ':')),
  (good) => encoded(`${decoded(good)}%`),
  (good) => encoded(`${decoded(good)}%00`),
  (good) => encoded(decoded(good).toUpperCase()),
  (_good, dice) => encoded(`${dice.word(20)}:${dice.word(40)}`),
  (_good, dice) => encoded(`__proto__:${dice.word(40)}`),
  () => encoded('constructor:'),
  () => encoded(':'),
  () => encoded('\0:\0'),
  () => encoded("' OR 1=1 --:x"),
  () => encoded(`${'x'.repeat(5000)}:x`),
  () => `Basic ${Buffer.from([0xff, 0x3a, 0xfe]).toString('base64')}`,
  () => 'Basic',
  () => 'Basic =',
];

/** Paths that differ from the operation's, or are another spelling of it. */
export const TARGETS: ((target: string, dice: Dice) => string)[] = [
  (target) => `${target}/`,
  (target) => `/${target}`,
  (target) => target.toUpperCase(),
  (target) => target.replace('auth', '%61uth'),
  (target) => target.replace('api', 'api/../api'),
  (target) => `${target}/../..`,
  (target) => `${target}%00`,
  (target) => `${target}%`,
  (target) => `${target}%zz`,
  (target) => `${target}%ff`,
  (target) => `${target};x=1`,
  (target) => `${target}#x`,
  (target) => `http://elsewhere${target}`,
  (target) => `${target}\xff`,
  (target, dice) => `${target}/${dice.word(1 + dice.below(8000))}`,
  (_target, dice) =>
    `/api/auth/${dice.pick(['0', '-1', '1e3', '0x10', '9007199254740992', '99999999999999999', '７'])}`,
  (_target, dice) =>
    `/api/auth/llt/${dice.pick(['0', '', '..', '%2e%2e', '1/2', '%2f', '1%20', 'x', '1'.repeat(9000)])}`,
  (_target, dice) =>
    `/docs/static/${dice.pick(['..%2f..%2fpackage.json', '%2e%2e/', '.%00', 'swagger-ui.js.map', '%5c'])}`,
  () => '*',
  () => '/',
  () => '//',
  () => '/api/auth/__proto__',
  () => '/constructor',
];

function encoded(text: string): string {
  return `Basic ${Buffer.from(text).toString('base64')}`;
}

function decoded(credentials: string): string {
  return Buffer.from(credentials.replace('Basic ', ''), 'base64').toString();
}

function changed(token: string, dice: Dice): string {
  const at = dice.below(token.length - 1);
  const old = token[at];
  const other = dice.pick(Array.from('ABCabc012-_.').filter((character) => character !== old));
  // Decoders ignore the spare bits of a segment's last character: texts that differ only there are one token.
  return isLastOfSegment(token, at) ? unsigned(token) : token.slice(0, at) + other + token.slice(at + 1);
}

function isLastOfSegment(token: string, at: number): boolean {
  return token[at] === '.' || token[at + 1] === '.' || at === token.length - 1;
}

function unsigned(token: string): string {
  const [, payload = ''] = token.split('.');
  return `${Buffer.from('{"alg":"none","typ":"at+jwt"}').toString('base64url')}.${payload}.`;
}
