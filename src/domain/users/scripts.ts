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
