/** What `npm run simulate` knows of one network. */
export interface SignOuts {
  network: string;
  /** By rule, in the order of the rules. */
  perThousand: readonly number[];
}

/** The rules and networks of the picture, each with its label. docs/rotation.md has all of them in a table. */
const SHOWN_RULES: Readonly<Record<string, string>> = {
  'ours, window 10': 'Latchkey',
  '30 s grace, same pair': '30 s grace',
  'strict one-time use': 'one-time use',
};
const SHOWN_NETWORKS: Readonly<Record<string, string>> = {
  '1% lost, 3 tabs': '1% of answers lost, 3 tabs',
  '5% lost, 3 tabs': '5% of answers lost, 3 tabs',
  '8 at once, 1 refresh in 10': 'pages that send 8 requests at once',
  'time-out 1 s, answers after 3 s': 'time-out of 1 s, answers after 3 s',
};

/** Of the image, narrow enough for a phone to show it at nearly full size. */
const WIDTH = 400;
const [MARGIN, TOP, GROUP, ROW, GAP] = [16, 84, 22, 19, 10];
/** Where bars begin, and the length of the longest. */
const [BARS, LENGTH] = [120, 205];

const STYLE = `
  text { font: 14px system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif; fill: #1b1f24; }
  .title { font-size: 17px; font-weight: 600; }
  .group, .ours { font-weight: 600; }
  .rule { text-anchor: end; }
  .quiet, .rule.other { fill: #59636e; }
  .surface { fill: #ffffff; stroke: #d9dee4; }
  .ours { fill: #0b63ce; }
  .bar.other { fill: #b4530a; }
  @media (prefers-color-scheme: dark) {
    text { fill: #eef1f5; }
    .quiet, .rule.other { fill: #a3adb8; }
    .surface { fill: #12161c; stroke: #313943; }
    .ours { fill: #5aa9ff; }
    .bar.other { fill: #f0a04b; }
  }
`;

/** The bar chart of the README, as an SVG that follows the reader's colour scheme. */
export function signOutsPicture(rules: readonly string[], signOuts: readonly SignOuts[]): string {
  const networks = signOuts
    .filter(({ network }) => network in SHOWN_NETWORKS)
    // As the table shows them, so that the table is enough to draw the picture.
    .map((each) => ({ ...each, perThousand: each.perThousand.map((value) => Number(value.toFixed(2))) }));
  const shown = Object.entries(SHOWN_RULES).map(([rule, label]) => ({ index: rules.indexOf(rule), label }));
  const most = Math.max(
    ...networks.flatMap((each) => shown.map(({ index }) => each.perThousand[index] ?? 0)),
  );
  const height = TOP + networks.length * (GROUP + shown.length * ROW + GAP) + MARGIN;

  const groups = networks.flatMap(({ network, perThousand }, i) => {
    const top = TOP + i * (GROUP + shown.length * ROW + GAP);
    const bars = shown.flatMap(({ index, label }, j) => {
      const value = perThousand[index] ?? NaN;
      const kind = j === 0 ? 'ours' : 'other';
      const [y, width] = [top + GROUP + j * ROW, Math.max(2, (LENGTH * value) / most)];
      return [
        `<text class="rule ${kind}" x="${BARS - 8}" y="${y + 12}">${label}</text>`,
        `<rect class="bar ${kind}" x="${BARS}" y="${y + 1}" width="${width.toFixed(1)}" height="13" rx="2"/>`,
        `<text class="value" x="${(BARS + width + 6).toFixed(1)}" y="${y + 12}">${value.toFixed(2)}</text>`,
      ];
    });
    return [`<text class="group" x="${MARGIN}" y="${top + 12}">${SHOWN_NETWORKS[network]}</text>`, ...bars];
  });

  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="title about">
<title id="title">Users signed out by a bad network</title>
<desc id="about">Wrongful sign-outs per 1,000 refreshes, by npm run simulate. docs/rotation.md has the figures in a table.</desc>
<style>${STYLE}</style>
<rect class="surface" x="0.5" y="0.5" width="${WIDTH - 1}" height="${height - 1}" rx="8"/>
<text class="title" x="${MARGIN}" y="32">Users signed out by a bad network</text>
<text class="quiet" x="${MARGIN}" y="54">wrongful sign-outs per 1,000 refreshes, simulated</text>
${groups.join('\n')}
</svg>
`;
}
