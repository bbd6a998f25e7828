// `node scripts/confusables.mjs` writes src/domain/users/confusables-table.ts: Unicode's confusables (UTS 39, section 4),
// from the ICU inside this Node. A test compares the two if Node has the same Unicode version as the table.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const table = join(root, 'src/domain/users/confusables-table.ts');

/** ICU's magic number of compiled confusables, and the only layout that this script reads (uspoof_impl.h). */
const MAGIC = 0x3845fdef;
const LAYOUT = 2;

/** The text of the generated module. */
export function renderTable() {
  return [
    '// Written by scripts/confusables.mjs from the ICU inside Node. Do not edit it: run the script.',
    NOTICE.replace(/^(?=.)/gm, '// ').replace(/^$/gm, '//'),
    '',
    '/** The version of Unicode that the table is of. */',
    `export const CONFUSABLES_VERSION = '${process.versions.unicode}';`,
    '',
    '/**',
    ' * What a character may be taken for, as `prototype:character,character` in hexadecimal code points; a prototype of several',
    ' * has dots between them. No ASCII, which stands for itself, and only what canonical usernames can hold.',
    ' */',
    'export const CONFUSABLES = `',
    ...wrap(entriesOf(reduced(readIcu(readFileSync(process.execPath)))), 110),
    '`;',
    '',
  ].join('\n');
}

/** @returns ICU's prototype of each character: `a` for the Cyrillic letter that looks like it. */
export function readIcu(binary) {
  for (let at = binary.indexOf('Cfu '); at >= 0; at = binary.indexOf('Cfu ', at + 1)) {
    // The header of an ICU data item begins 12 bytes before the format's name, with its length.
    const start = at - 12 + binary.readUInt16LE(at - 12);
    if (binary.readUInt32LE(start) === MAGIC && binary[start + 4] === LAYOUT) return readPairs(binary, start);
  }
  throw new Error('this Node contains no ICU confusables: use an official build of Node with full ICU');
}

/** Three arrays: characters with the length of their prototype, the prototype or its offset, and strings. */
function readPairs(binary, start) {
  const field = (index) => binary.readInt32LE(start + 12 + 4 * index);
  const [keys, count, values, , texts] = [0, 1, 2, 3, 4].map(field);
  const pairs = new Map();
  for (let index = 0; index < count; index++) {
    const key = binary.readUInt32LE(start + keys + 4 * index);
    const length = (key >>> 24) + 1;
    const value = binary.readUInt16LE(start + values + 2 * index);
    const from = start + texts + 2 * value;
    const text =
      length === 1 ? String.fromCharCode(value) : binary.toString('utf16le', from, from + 2 * length);
    pairs.set(String.fromCodePoint(key & 0xff_ffff), text);
  }
  return pairs;
}

/**
 * Keeps only characters that a canonical username can hold, decomposed, without ASCII. Lower-cases each prototype, and looks
 * it up again until it is its own prototype.
 */
export function reduced(pairs) {
  const kept = new Map([...pairs].filter(([from]) => !isAscii(from) && canonical(from) === from));
  const look = (text) =>
    Array.from(text.toLowerCase().normalize('NFD'), (one) => kept.get(one) ?? one)
      .join('')
      .toLowerCase()
      .normalize('NFD');
  return new Map(
    [...kept].map(([from, to]) => {
      let text = look(to);
      for (let tries = 0; look(text) !== text; tries++) {
        if (tries === 10) throw new Error(`U+${hex(from)} has no prototype`);
        text = look(text);
      }
      return [from, text];
    }),
  );
}

function entriesOf(pairs) {
  const groups = new Map();
  for (const [from, to] of pairs) groups.set(to, [...(groups.get(to) ?? []), from]);
  return [...groups].map(([to, members]) => `${hex(to)}:${members.map(hex).join()}`).sort();
}

function hex(text) {
  return Array.from(text, (one) => one.codePointAt(0).toString(16)).join('.');
}

function wrap(words, width) {
  const lines = [''];
  for (const word of words) {
    const line = lines.at(-1);
    if (line !== '' && line.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`;
  }
  return lines;
}

function isAscii(text) {
  return /^[\0-\x7f]*$/.test(text);
}

/** The canonical form of domain/identifiers.ts, decomposed. */
function canonical(text) {
  return text.normalize('NFKC').trim().toLowerCase().normalize('NFKC').normalize('NFD');
}

const NOTICE = `
Derived from confusables.txt of Unicode's security data (UTS 39), as ICU compiles it.
Copyright © 1991-2025 Unicode, Inc. All rights reserved. SPDX-License-Identifier: Unicode-3.0

NOTICE TO USER: Carefully read the following legal agreement. BY DOWNLOADING, INSTALLING, COPYING OR
OTHERWISE USING DATA FILES, AND/OR SOFTWARE, YOU UNEQUIVOCALLY ACCEPT, AND AGREE TO BE BOUND BY, ALL OF THE
TERMS AND CONDITIONS OF THIS AGREEMENT. IF YOU DO NOT AGREE, DO NOT DOWNLOAD, INSTALL, COPY, DISTRIBUTE OR USE
THE DATA FILES OR SOFTWARE.

Permission is hereby granted, free of charge, to any person obtaining a copy of data files and any associated
documentation (the "Data Files") or software and any associated documentation (the "Software") to deal in the
Data Files or Software without restriction, including without limitation the rights to use, copy, modify,
merge, publish, distribute, and/or sell copies of the Data Files or Software, and to permit persons to whom the
Data Files or Software are furnished to do so, provided that either (a) this copyright and permission notice
appear with all copies of the Data Files or Software, or (b) this copyright and permission notice appear in
associated Documentation.

THE DATA FILES AND SOFTWARE ARE PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING
BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT OF
THIRD PARTY RIGHTS. IN NO EVENT SHALL THE COPYRIGHT HOLDER OR HOLDERS INCLUDED IN THIS NOTICE BE LIABLE FOR ANY
CLAIM, OR ANY SPECIAL INDIRECT OR CONSEQUENTIAL DAMAGES, OR ANY DAMAGES WHATSOEVER RESULTING FROM LOSS OF USE,
DATA OR PROFITS, WHETHER IN AN ACTION OF CONTRACT, NEGLIGENCE OR OTHER TORTIOUS ACTION, ARISING OUT OF OR IN
CONNECTION WITH THE USE OR PERFORMANCE OF THE DATA FILES OR SOFTWARE.

Except as contained in this notice, the name of a copyright holder shall not be used in advertising or
otherwise to promote the sale, use or other dealings in these Data Files or Software without prior written
authorization of the copyright holder.`.trim();

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(table, renderTable());
