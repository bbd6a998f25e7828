export interface BarChart {
  title: string;
  subtitle: string;
  /** For those who cannot see it: where the figures come from, and where they stand in a table. */
  about: string;
  groups: readonly { title: string; bars: readonly Bar[] }[];
}

interface Bar {
  label: string;
  value: number;
  /** The value as it is written beside the bar. */
  text: string;
  /** Whether it is Latchkey's. */
  isOurs: boolean;
}

/** Of the image, narrow enough for a phone to show it at nearly full size. */
const WIDTH = 400;
const [MARGIN, TOP, GROUP, ROW, GAP] = [16, 84, 22, 19, 10];
/** Of a letter and of the widest value, in the fonts of `STYLE`. */
const [LETTER, VALUE] = [7.6, 62];

/** Follows the reader's colour scheme. */
const STYLE = `
  text { font: 14px system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif; fill: #1b1f24; }
  .title { font-size: 17px; font-weight: 600; }
  .group, .ours { font-weight: 600; }
  .label { text-anchor: end; }
  .quiet, .label.other { fill: #59636e; }
  .surface { fill: #ffffff; stroke: #d9dee4; }
  .ours { fill: #0b63ce; }
  .bar.other { fill: #b4530a; }
  @media (prefers-color-scheme: dark) {
    text { fill: #eef1f5; }
    .quiet, .label.other { fill: #a3adb8; }
    .surface { fill: #12161c; stroke: #313943; }
    .ours { fill: #5aa9ff; }
    .bar.other { fill: #f0a04b; }
  }
`;

/** An SVG of groups of bars, below each other and on one scale. */
export function barChart({ title, subtitle, about, groups }: BarChart): string {
  const all = groups.flatMap(({ bars }) => bars);
  const left = Math.ceil(MARGIN + LETTER * Math.max(...all.map(({ label }) => label.length)) + 8);
  const scale = (WIDTH - left - VALUE - MARGIN) / Math.max(...all.map(({ value }) => value));
  const shapes: string[] = [];
  let y = TOP;
  for (const { title: group, bars } of groups) {
    shapes.push(`<text class="group" x="${MARGIN}" y="${y + 12}">${group}</text>`);
    y += GROUP;
    for (const { label, value, text, isOurs } of bars) {
      const kind = isOurs ? 'ours' : 'other';
      const width = Math.max(2, scale * value);
      shapes.push(
        `<text class="label ${kind}" x="${left - 8}" y="${y + 12}">${label}</text>`,
        `<rect class="bar ${kind}" x="${left}" y="${y + 1}" width="${width.toFixed(1)}" height="13" rx="2"/>`,
        `<text x="${(left + width + 6).toFixed(1)}" y="${y + 12}">${text}</text>`,
      );
      y += ROW;
    }
    y += GAP;
  }
  const height = y + MARGIN - GAP;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="title about">
<title id="title">${title}</title>
<desc id="about">${about}</desc>
<style>${STYLE}</style>
<rect class="surface" x="0.5" y="0.5" width="${WIDTH - 1}" height="${height - 1}" rx="8"/>
<text class="title" x="${MARGIN}" y="32">${title}</text>
<text class="quiet" x="${MARGIN}" y="54">${subtitle}</text>
${shapes.join('\n')}
</svg>
`;
}
