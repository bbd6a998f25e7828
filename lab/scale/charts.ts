import type { Figure } from './measure.ts';
import type { ScaleDocument } from './scale-document.ts';

/** Bars of one color, in rows. */
interface Bar {
  label: string;
  /** The median and the middle half of the rounds. */
  value: number;
  low: number;
  high: number;
}

const WIDTH = 760;
const LEFT = 250;
const RIGHT = 90;
const ROW = 28;
const TOP = 56;
const STYLE =
  'text{font:13px system-ui,sans-serif;fill:#1f2328}.title{font-size:16px;font-weight:600}.bar{fill:#0b63ce}' +
  '.range{stroke:#1f2328;stroke-width:1.5}@media(prefers-color-scheme:dark){text{fill:#e6edf3}.bar{fill:#5aa9ff}' +
  '.range{stroke:#e6edf3}}';

/** The charts of docs/scaling.md by file name, for the parts that have been measured. */
export function chartsOf({ replicas, connections, sessions, tokens }: ScaleDocument): [string, string][] {
  const micros = (vary: 'replicas' | 'connections' | 'sessions') => (figure: Figure) =>
    barOf(`${figure.operation}, ${count(figure[vary], vary)}`, figure.micros);
  const isFast = ({ operation }: Figure) => operation !== 'login';
  const title = 'CPU µs of a replica for one request';
  const charts: [string, string, Bar[]][] = [
    ['scaling-replicas.svg', title, (replicas?.figures ?? []).filter(isFast).map(micros('replicas'))],
    ['scaling-connections.svg', title, (connections?.figures ?? []).map(micros('connections'))],
    [
      'scaling-sessions.svg',
      title,
      (sessions?.figures ?? []).flatMap(({ figures }) => figures).map(micros('sessions')),
    ],
    [
      'scaling-tokens.svg',
      'Milliseconds of one request, by the tokens of the user',
      (tokens?.figures ?? []).map((figure) =>
        barOf(`${figure.operation}, ${count(figure.tokens, 'tokens')}`, figure.took),
      ),
    ],
  ];
  return charts
    .filter(([, , bars]) => bars.length > 0)
    .map(([name, heading, bars]) => [name, drawBars(heading, bars)]);
}

function barOf(label: string, { median, low, high }: Figure['micros']): Bar {
  return { label, value: median, low, high };
}

/** Bars from 0, each with the range of its rounds, as a standalone SVG for light and dark pages. */
export function drawBars(title: string, bars: readonly Bar[]): string {
  const most = Math.max(...bars.map(({ high, value }) => Math.max(high, value)));
  const scale = (WIDTH - LEFT - RIGHT) / most;
  const height = TOP + bars.length * ROW + 12;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${title}">`,
    `<style>${STYLE}</style>`,
    `<text class="title" x="16" y="28">${title}</text>`,
    ...bars.map((bar, i) => barSvg(bar, TOP + i * ROW, scale)),
    '</svg>\n',
  ].join('\n');
}

function barSvg({ label, value, low, high }: Bar, y: number, scale: number): string {
  const x = (amount: number) => (LEFT + amount * scale).toFixed(1);
  const middle = y + ROW / 2;
  return [
    `<text x="${LEFT - 8}" y="${middle + 4}" text-anchor="end">${label}</text>`,
    `<rect class="bar" x="${LEFT}" y="${y + 4}" width="${(value * scale).toFixed(1)}" height="${ROW - 8}" rx="2"/>`,
    `<line class="range" x1="${x(low)}" y1="${middle}" x2="${x(high)}" y2="${middle}"/>`,
    `<text x="${x(Math.max(high, value))}" dx="6" y="${middle + 4}">${digits(value)}</text>`,
  ].join('');
}

function digits(value: number): string {
  return value >= 10 ? Math.round(value).toLocaleString('en-US') : value.toFixed(1);
}

function count(value: number, noun: string): string {
  return `${value.toLocaleString('en-US')} ${value === 1 ? noun.slice(0, -1) : noun}`;
}
