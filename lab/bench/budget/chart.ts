import { PARTS, type Part } from './parts.ts';

/** One bar: a build that answers one operation. */
export interface Bar {
  label: string;
  /** CPU microseconds of one request, by part. */
  parts: Record<Part, number>;
}

const WIDTH = 960;
const LEFT = 210;
const RIGHT = 70;
const BAR = 22;
const GAP = 10;
const LEGEND_ROW = 22;
const LEGEND_COLUMNS = 3;

/** Distinct for readers who confuse red and green (Paul Tol's muted scheme), and on white as on black. */
const COLORS: Record<Part, string> = {
  'Node: reading requests': '#88ccee',
  'Node: writing answers': '#5a8fc8',
  Fastify: '#44aa99',
  'our HTTP layer': '#117733',
  'tokens: signatures and claims': '#ddcc77',
  'use cases': '#cc6677',
  'Redis client': '#aa4499',
  'PostgreSQL client': '#882255',
  'logs, metrics and traces': '#999933',
  'garbage collection': '#8c8c8c',
  other: '#c0c0c0',
};

/** Stacked bars as a standalone SVG, for light and dark pages. */
export function budgetChart(bars: readonly Bar[]): string {
  const longest = Math.max(...bars.map(totalOf));
  const scale = (WIDTH - LEFT - RIGHT) / longest;
  const legendTop = bars.length * (BAR + GAP) + 2 * GAP;
  const height = legendTop + Math.ceil(PARTS.length / LEGEND_COLUMNS) * LEGEND_ROW;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="CPU time of a request by part">`,
    '<style>text{font:13px system-ui,sans-serif;fill:#1f2328}@media(prefers-color-scheme:dark){text{fill:#e6edf3}}</style>',
    ...bars.map((bar, i) => barSvg(bar, GAP + i * (BAR + GAP), scale)),
    ...PARTS.map((part, i) => legendSvg(part, i, legendTop)),
    '</svg>\n',
  ].join('\n');
}

function barSvg(bar: Bar, y: number, scale: number): string {
  const middle = y + BAR / 2 + 5;
  let x = LEFT;
  const pieces = PARTS.map((part) => {
    const width = bar.parts[part] * scale;
    const piece = `<rect x="${x.toFixed(1)}" y="${y}" width="${width.toFixed(1)}" height="${BAR}" fill="${COLORS[part]}"><title>${part}: ${bar.parts[part].toFixed(1)} µs</title></rect>`;
    x += width;
    return piece;
  });
  return [
    `<text x="${LEFT - 8}" y="${middle}" text-anchor="end">${bar.label}</text>`,
    ...pieces,
    `<text x="${(x + 6).toFixed(1)}" y="${middle}">${totalOf(bar).toFixed(0)} µs</text>`,
  ].join('');
}

function legendSvg(part: Part, i: number, top: number): string {
  const x = 20 + (i % LEGEND_COLUMNS) * Math.floor((WIDTH - 40) / LEGEND_COLUMNS);
  const y = top + Math.floor(i / LEGEND_COLUMNS) * LEGEND_ROW;
  return `<rect x="${x}" y="${y}" width="14" height="14" fill="${COLORS[part]}"/><text x="${x + 20}" y="${y + 12}">${part}</text>`;
}

export function totalOf({ parts }: Pick<Bar, 'parts'>): number {
  return PARTS.reduce((sum, part) => sum + parts[part], 0);
}
