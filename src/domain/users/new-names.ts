import type { FieldProblem } from '../errors.ts';
import { skeletonOf } from './confusables.ts';
import {
  badCharacter,
  BLANK,
  parseEmail,
  parseLabel,
  parseUsername,
  refuse,
  type Parsed,
} from '../identifiers.ts';
import type { ChangedNames } from './ports.ts';
import { holdsInvisible, withoutInvisible } from './visible.ts';

/**
 * Further rules for names, at signup and when a name is changed. A login only canonicalises, so that a new rule locks
 * no existing account out.
 */
export type NewNames = Record<keyof ChangedNames, (raw: string) => Parsed>;

/** @param reserved usernames in canonical form. No account gets one of them, or a lookalike. */
export function makeNewNames(reserved: readonly string[]): NewNames {
  const skeletons = new Set(reserved.map(skeletonOf));
  return {
    username: (raw) => refuseIf(parseUsername(raw), (value) => usernameProblem(value, skeletons)),
    name: (raw) => refuseIf(parseLabel(raw), nameProblem),
    email: (raw) => refuseIf(parseEmail(raw), (value) => (holdsInvisible(value) ? INVISIBLE : null)),
  };
}

const INVISIBLE = badCharacter('must not hold invisible characters');

const MARK_FIRST = /^\p{M}/u;
/** More than four marks, or a repeated one, look like fewer (UTS 39, section 5.4). Matches decomposed text. */
const STACKED_MARKS = /[\p{Mn}\p{Me}]{5}|([\p{Mn}\p{Me}])\1/u;

function usernameProblem(username: string, reserved: ReadonlySet<string>): FieldProblem | null {
  if (holdsInvisible(username)) return INVISIBLE;
  if (MARK_FIRST.test(username)) return badCharacter('must not begin with a combining mark');
  if (STACKED_MARKS.test(username.normalize('NFD')))
    return badCharacter('must not have more than four combining marks on a letter, or the same one twice');
  if (!isOfOneScript(username))
    return { code: 'mixed_scripts', message: 'must not mix letters of several scripts' };
  return reserved.has(skeletonOf(username))
    ? { code: 'reserved', message: 'must not be, or look like, a reserved name' }
    : null;
}

function nameProblem(name: string): FieldProblem | null {
  if (withoutInvisible(name) !== name) return INVISIBLE;
  return /[^\s\p{M}\ufe0e\ufe0f\u200c\u200d]/u.test(name) ? null : BLANK;
}

function refuseIf(parsed: Parsed, findProblem: (value: string) => FieldProblem | null): Parsed {
  const problem = parsed.ok ? findProblem(parsed.value) : null;
  return problem === null ? parsed : refuse(problem);
}

/**
 * The writing systems that may be mixed in one name (UTS 39, section 5.2, "highly restrictive"): Latin and three
 * others.
 */
const MIXED = ['Latn Hani Hira Kana', 'Latn Bopo Hani', 'Latn Hang Hani'];

/** Every script of Unicode 17 by its code of ISO 15924, the commonest first. */
const SCRIPTS =
  'Latn Cyrl Grek Arab Hani Hira Kana Hang Deva Hebr Thai Beng Taml Telu Geor Armn Adlm Aghb Ahom Armi Avst Bali Bamu ' +
  'Bass Batk Berf Bhks Bopo Brah Brai Bugi Buhd Cakm Cans Cari Cham Cher Chrs Copt Cpmn Cprt Diak Dogr Dsrt Dupl Egyp ' +
  'Elba Elym Ethi Gara Glag Gong Gonm Goth Gran Gujr Gukh Guru Hano Hatr Hluw Hmng Hmnp Hung Ital Java Kali Kawi Khar ' +
  'Khmr Khoj Kits Knda Krai Kthi Lana Laoo Lepc Limb Lina Linb Lisu Lyci Lydi Mahj Maka Mand Mani Marc Medf Mend Merc ' +
  'Mero Mlym Modi Mong Mroo Mtei Mult Mymr Nagm Nand Narb Nbat Newa Nkoo Nshu Ogam Olck Onao Orkh Orya Osge Osma Ougr ' +
  'Palm Pauc Perm Phag Phli Phlp Phnx Plrd Prti Rjng Rohg Runr Samr Sarb Saur Sgnw Shaw Shrd Sidd Sidt Sind Sinh Sogd ' +
  'Sogo Sora Soyo Sund Sunu Sylo Syrc Tagb Takr Tale Talu Tang Tavt Tayo Tfng Tglg Thaa Tibt Tirh Tnsa Todr Tols Toto ' +
  'Tutg Ugar Vaii Vith Wara Wcho Xpeo Xsux Yezi Yiii Zanb';

/** Characters of no script: digits, punctuation, emoji, and marks that take the script of their letter. */
const SHARED = /[\p{scx=Zyyy}\p{scx=Zinh}]/gu;

/** Each pattern is compiled at its first use. All take some 40 ms, which the first refused name spends. */
const PATTERNS = [...SCRIPTS.split(' '), ...MIXED].map((scripts) => {
  let pattern: RegExp | null | undefined;
  return () => (pattern ??= patternOf(scripts));
});

/** Uses Script_Extensions: a character that several scripts share belongs to each of them. */
export function isOfOneScript(text: string): boolean {
  const letters = text.replace(SHARED, '');
  return letters === '' || PATTERNS.some((pattern) => pattern()?.test(letters));
}

/** Null for a script that is newer than this Node. */
function patternOf(scripts: string): RegExp | null {
  try {
    return new RegExp(`^[${scripts.replace(/\w+ ?/g, (name) => `\\p{scx=${name.trim()}}`)}]+$`, 'u');
  } catch {
    return null;
  }
}
