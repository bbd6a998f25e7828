import { posix } from 'node:path';
import { makeRandom } from './random.ts';

/** What a path resolves to, in the ways in which applications read one. */
const READINGS: Record<string, (path: string) => string> = {
  'RFC 3986': (path) => decoded(new URL(`http://x${path.replaceAll('\\', '%5C')}`).pathname),
  'WHATWG URL': (path) => decoded(new URL(`http://x${path}`).pathname),
  'parameters dropped before decoding': (path) => posix.normalize(decoded(path.replaceAll(PARAMETERS, ''))),
  'parameters dropped after decoding': (path) => posix.normalize(decoded(path).replaceAll(PARAMETERS, '')),
};

const PARAMETERS = /;[^/]*/g;
const BEGINNINGS = ['', '', '', '', '/', '/.', '/x/..', ';x', '\\'];
const SEGMENTS = [
  'x',
  'a.b',
  'orders',
  'public',
  '',
  '.',
  '..',
  '..',
  '...',
  '\\',
  '..\\x',
  'x\\..',
  '..\\..\\x',
  ';',
  'x;a=b',
  '.;',
  '..;',
  '..;x=..',
  ';..',
  '..;\\x',
  '\\..;',
];

/** The readings, of a path or of what one decoding leaves of it, that lead out of a folder. */
export function waysOut(target: string, folder = 'public'): string[] {
  const [path = ''] = target.split('?');
  return Object.entries(READINGS).flatMap(([name, read]) =>
    [path, decoded(path)].some((form) => !read(form).startsWith(`/${folder}/`)) ? [name] : [],
  );
}

/** Paths that begin with some spelling of /public/, or of another folder, and end with /orders. */
export function spellings(seed: number, count: number, folder = 'public'): string[] {
  const { chance, between } = makeRandom(seed);
  const pick = (texts: readonly string[]) => texts[Math.floor(between(0, texts.length))] ?? '';
  const encode = (text: string): string => {
    const hex = text.charCodeAt(0).toString(16);
    const encoded = `%${chance(0.5) ? hex : hex.toUpperCase()}`;
    return chance(0.3) ? encoded.replace('%', '%25') : encoded;
  };
  /** Encodes some of the characters that matter. Most spellings have none, so that one trick does not hide another. */
  const some = (text: string, share: number) =>
    text.replaceAll(/[./;\\p]/g, (each) => (chance(share) ? encode(each) : each));
  return Array.from({ length: count }, () => {
    const share = chance(0.6) ? 0 : 0.3;
    const middle = Array.from({ length: between(1, 5) }, () => pick(SEGMENTS));
    const begin = chance(0.8) ? `/${folder}` : `${pick(BEGINNINGS)}/${folder}${pick(BEGINNINGS)}`;
    const path = `${begin.startsWith('/') ? '' : '/'}${begin}${some(`/${middle.join('/')}/orders`, share)}`;
    return chance(0.1) ? `${path}?/../x` : path;
  });
}

/** Byte by byte: a path need not be UTF-8. */
export function decoded(path: string): string {
  return path.replaceAll(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)));
}
