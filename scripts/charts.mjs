// `npm run charts` draws the two tables of docs/rotation.md ("Beside the rules of others") into docs/images/. The tables are
// the output of `npm run simulate`. `--print NAME` prints one chart; a test compares it with the committed file.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const root = new URL('..', import.meta.url).pathname;
const SIGN_OUTS = 'false sign-outs per 1,000 refreshes';
const FOUND = 'time until the thief is found: median (longest)';
/** Two rules are left out: window 0 differs by about 1, and the fork of a 10 s grace is equal to it. */
const SHOWN = ['ours, window 10', '30 s grace, same pair', '10 s grace, same pair', 'strict one-time use'];

const WIDTH = 760;
const LEFT = 200;
const RIGHT = 640;
const ROW = 17;
const HEADING = 26;
const TOP = 92;

const CHARTS = { 'sign-outs': signOuts, 'thief-found': thiefFound };

const [flag, name] = process.argv.slice(2);
if (flag === '--print') {
  if (!(name in CHARTS)) throw new Error(`--print takes one of: ${Object.keys(CHARTS).join(', ')}`);
  process.stdout.write(CHARTS[name]());
} else {
  mkdirSync(join(root, 'docs/images'), { recursive: true });
  for (const [each, draw] of Object.entries(CHARTS)) {
    writeFileSync(join(root, `docs/images/${each}.svg`), draw());
  }
}

/** Bars from 0: one per rule, in a group per network. */
function signOuts() {
  const { rules, rows } = readTable(SIGN_OUTS);
  const columns = SHOWN.map((rule) => rules.indexOf(rule));
  if (columns.includes(-1)) throw new Error(`the table of sign-outs has no column for one of: ${SHOWN}`);
  const groups = rows.map(({ title, cells }) => ({
    title,
    marks: columns.map((column) => ({
      rule: rules[column],
      value: Number(cells[column]),
      text: cells[column],
    })),
  }));
  const ticks = [0, 50, 100, 150, 200, 250];
  return draw({
    title: 'How often a shaky network signs out honest users',
    subtitle: 'False sign-outs per 1,000 refreshes, simulated, 20,000 refreshes a bar. Fewer is better.',
    axis: 'false sign-outs per 1,000 refreshes',
    groups,
    ticks: ticks.map((value) => ({ value, label: `${value}` })),
    most: 260,
    mark: ({ value, text, y, x, kind }) =>
      `<rect class="bar ${kind}" x="${LEFT}" y="${y - 6}" width="${round(Math.max(x(value) - LEFT, 2))}" height="12" rx="2"/>` +
      label({ x: x(value) + 6, y, kind, text }),
  });
}

/** A dot at the median and a line to the longest time; `never` if no thief was found within the day. */
function thiefFound() {
  const { rules, rows } = readTable(FOUND);
  const groups = rows.map(({ title, cells }) => ({
    title,
    marks: rules.map((rule, column) => ({ rule, ...readTimes(cells[column]), text: cells[column] })),
  }));
  return draw({
    title: 'How long a thief with a stolen refresh token goes undetected',
    subtitle:
      'Dot: median. Line: up to the longest of 40 thefts, a day each, simulated. Never: not within the day.',
    axis: 'minutes from the theft until it is detected',
    groups,
    ticks: [0, 5, 10, 15, 20, 25].map((value) => ({ value, label: `${value}` })),
    most: 25,
    mark: ({ median, longest, text, y, x, kind }) =>
      median === null
        ? `<line class="range never ${kind}" x1="${LEFT}" y1="${y}" x2="${RIGHT}" y2="${y}"/>` +
          label({ x: RIGHT + 9, y, kind: `${kind} never`, text: 'never' })
        : `<line class="range ${kind}" x1="${round(x(median))}" y1="${y}" x2="${round(x(longest))}" y2="${y}"/>` +
          `<circle class="bar ${kind}" cx="${round(x(median))}" cy="${y}" r="4.5"/>` +
          label({ x: x(longest) + 9, y, kind, text }),
  });
}

function draw({ title, subtitle, axis, groups, ticks, most, mark }) {
  const x = (value) => LEFT + ((RIGHT - LEFT) * value) / most;
  const body = [];
  let y = TOP;
  for (const group of groups) {
    y += HEADING;
    body.push(`<text class="group" x="24" y="${y - 9}">${escape(group.title)}</text>`);
    for (const each of group.marks) {
      const kind = each.rule.startsWith('ours') ? 'ours' : 'other';
      const middle = y + ROW / 2;
      body.push(
        `<text class="rule ${kind}" x="${LEFT - 10}" y="${middle + 4}">${escape(nameOf(each.rule))}</text>`,
        mark({ ...each, y: middle, x, kind }),
      );
      y += ROW;
    }
  }
  const bottom = y + 12;
  const height = bottom + 74;
  const grid = ticks.flatMap(({ value, label: text }) => [
    `<line class="grid" x1="${round(x(value))}" y1="${TOP}" x2="${round(x(value))}" y2="${bottom}"/>`,
    `<text class="tick" x="${round(x(value))}" y="${bottom + 16}">${text}</text>`,
  ]);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="title about">
<title id="title">${escape(title)}</title>
<desc id="about">${escape(subtitle)} The same figures are a table in docs/rotation.md.</desc>
<style>
  text { font: 12px system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif; }
  .title { font-size: 18px; font-weight: 600; }
  .group, .rule.ours, .value.ours { font-weight: 600; }
  .value.never { font-style: italic; }
  .rule { text-anchor: end; }
  .tick, .axis { text-anchor: middle; }
  .range { stroke-width: 2.5; stroke-linecap: round; }
  .range.never { stroke-dasharray: 1 7; }
${colours({ surface: '#ffffff', ink: '#1b1f24', muted: '#59636e', line: '#d9dee4', ours: '#0b63ce', other: '#b4530a' })}
  @media (prefers-color-scheme: dark) {
${colours({ surface: '#12161c', ink: '#eef1f5', muted: '#a3adb8', line: '#313943', ours: '#5aa9ff', other: '#f0a04b' })}
  }
</style>
<rect class="surface" x="0.5" y="0.5" width="${WIDTH - 1}" height="${height - 1}" rx="8"/>
<text class="title" x="24" y="38">${escape(title)}</text>
<text class="subtitle" x="24" y="60">${escape(subtitle)}</text>
${[...grid, ...body].join('\n')}
<text class="axis" x="${(LEFT + RIGHT) / 2}" y="${bottom + 36}">${escape(axis)}</text>
<text class="source" x="24" y="${height - 16}">Figures: npm run simulate (docs/rotation.md). Drawn by npm run charts.</text>
</svg>
`;
}

/** Colours as literals for each mode: some SVG viewers do not support CSS variables. */
function colours({ surface, ink, muted, line, ours, other }) {
  return `  .surface { fill: ${surface}; stroke: ${line}; }
  .grid { stroke: ${line}; }
  text { fill: ${ink}; }
  .subtitle, .rule, .tick, .axis, .source { fill: ${muted}; }
  .rule.ours, .value.ours, .bar.ours { fill: ${ours}; }
  .bar.other { fill: ${other}; }
  .range.ours { stroke: ${ours}; }
  .range.other { stroke: ${other}; }`;
}

function label({ x, y, kind, text }) {
  return `<text class="value ${kind}" x="${round(x)}" y="${y + 4}">${escape(text)}</text>`;
}

/** @returns the columns' names, and the rows, of the table of docs/rotation.md whose first cell is `corner`. */
function readTable(corner) {
  const lines = readFileSync(join(root, 'docs/rotation.md'), 'utf8').split('\n');
  const from = lines.findIndex((line) => cellsOf(line)[0] === corner);
  if (from === -1) throw new Error(`docs/rotation.md has no table that begins with "${corner}"`);
  const end = lines.findIndex((line, at) => at > from && !line.startsWith('|'));
  const rows = lines.slice(from + 2, end).map((line) => {
    const [title, ...cells] = cellsOf(line);
    return { title, cells };
  });
  if (rows.length === 0) throw new Error(`the table "${corner}" of docs/rotation.md has no rows`);
  rows.forEach((row, at) => {
    row.title = capitalised(row.title.replace(/^the same/, rows[at - 1]?.title ?? 'the same'));
  });
  return { rules: cellsOf(lines[from]).slice(1), rows };
}

function cellsOf(line) {
  return line
    .split('|')
    .slice(1, -1)
    .map((cell) => cell.trim());
}

/** `5.8 min (7.2 min), 6 of 40 never` in minutes. */
function readTimes(cell) {
  if (cell === 'never') return { median: null, longest: null };
  const times = /^([\d.]+) (s|min) \(([\d.]+) (s|min)\)/.exec(cell);
  if (!times) throw new Error(`docs/rotation.md: malformed time: ${cell}`);
  const minutes = (figure, unit) => Number(figure) / (unit === 's' ? 60 : 1);
  return { median: minutes(times[1], times[2]), longest: minutes(times[3], times[4]) };
}

function nameOf(rule) {
  return rule
    .replace(/^ours, window 0$/, 'Latchkey, window off')
    .replace(/^ours, window (\d+)$/, 'Latchkey, window $1 s');
}

function capitalised(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function round(number) {
  return Math.round(number * 10) / 10;
}

function escape(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
