// `node scripts/chart-readme.mjs` writes the table of values into the chart's README, by the conventions of helm-docs: a
// comment `# -- …` describes the next key, and `# @default -- …` stands for a long default. `--print` prints the whole
// README; a test compares the two.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { format } from 'oxfmt';
import { parse } from 'yaml';

const folder = join(new URL('..', import.meta.url).pathname, 'charts/latchkey');
const file = join(folder, 'README.md');
const values = readFileSync(join(folder, 'values.yaml'), 'utf8');

/** The described keys, in the order of the file. */
function* described() {
  let path = [];
  let comment;
  for (const line of values.split('\n')) {
    const [, text] = /^ *# -- (.*)$/.exec(line) ?? [];
    const [, shown] = /^ *# @default -- (.*)$/.exec(line) ?? [];
    const [, indent, key] = /^( *)(\w+):/.exec(line) ?? [];
    if (text) comment = { text };
    else if (shown) comment.shown = shown;
    else if (key) {
      path = [...path.slice(0, indent.length / 2), key];
      if (comment) yield { ...comment, path };
      comment = undefined;
    }
  }
}

function typeOf(value) {
  if (Array.isArray(value)) return 'list';
  return { boolean: 'bool', number: 'int' }[typeof value] ?? typeof value;
}

const all = parse(values);
const rows = [...described()].map(({ path, text, shown }) => {
  const value = path.reduce((at, key) => at[key], all);
  return `| ${path.join('.')} | ${typeOf(value)} | ${shown ?? `\`${JSON.stringify(value)}\``} | ${text} |`;
});
const [before] = readFileSync(file, 'utf8').split(/(?<=^## Values\n)/m);
const table = ['| Key | Type | Default | Description |', '| --- | --- | --- | --- |', ...rows].join('\n');
const { overrides } = JSON.parse(readFileSync(join(folder, '../../.oxfmtrc.json'), 'utf8'));
const { code: readme } = await format('README.md', `${before}\n${table}\n`, overrides[0].options);

if (process.argv.includes('--print')) process.stdout.write(readme);
else writeFileSync(file, readme);
