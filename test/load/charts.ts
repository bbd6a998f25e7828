/** A line of a chart. */
export interface Series {
  name: string;
  /** From left to right; null leaves a gap. */
  points: readonly (readonly [x: number, y: number | null])[];
}

export interface Chart {
  title: string;
  /** What to see, in one sentence. */
  about: string;
  x: string;
  y: string;
  /** At most five: the page has as many colors. */
  series: readonly Series[];
  /** A logarithmic y axis, for latencies. */
  isLog?: boolean;
}

const WIDTH = 860;
const HEIGHT = 300;
const [LEFT, RIGHT, TOP, BOTTOM] = [64, 150, 16, 44];
/** Between two names. */
const APART = 16;
const INNER = { width: WIDTH - LEFT - RIGHT, height: HEIGHT - TOP - BOTTOM };

interface Scale {
  ticks: number[];
  /** From 0 to 1. */
  at(value: number): number;
}

/** An SVG figure. Its colors are variables of the page (page.ts); hovering shows the values at each point. */
export function lineChart(chart: Chart): string {
  const all = chart.series.flatMap(({ points }) => points);
  const values = all.flatMap(([, y]) => (y === null ? [] : [y]));
  const xs = upTo(Math.max(1, ...all.map(([x]) => x)));
  const ys = chart.isLog ? logarithmic(values) : linear(Math.max(1e-9, ...values));
  const x = (value: number) => round(LEFT + xs.at(value) * INNER.width);
  const y = (value: number) => round(TOP + (1 - ys.at(value)) * INNER.height);
  const right = LEFT + INNER.width;
  const bottom = TOP + INNER.height;
  const grid = ys.ticks.map(
    (tick) =>
      `<line class="grid" x1="${LEFT}" y1="${y(tick)}" x2="${right}" y2="${y(tick)}"/>` +
      `<text class="tick" x="${LEFT - 8}" y="${y(tick) + 4}" text-anchor="end">${figure(tick)}</text>`,
  );
  const feet = xs.ticks.map(
    (tick) =>
      `<text class="tick" x="${x(tick)}" y="${bottom + 18}" text-anchor="middle">${figure(tick)}</text>`,
  );
  const lines = chart.series.map((series, i) => line(series, i, x, y));
  return `<figure><h2>${escape(chart.title)}</h2><p class="about">${escape(chart.about)}</p>
<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${escape(chart.title)}">
${[...grid, ...feet, ...lines, ...names(chart.series, y), ...hovers(chart, x)].join('\n')}
<text class="axis" x="${LEFT + INNER.width / 2}" y="${HEIGHT - 6}" text-anchor="middle">${escape(chart.x)}</text>
<text class="axis" x="14" y="${TOP + INNER.height / 2}" text-anchor="middle" transform="rotate(-90 14 ${TOP + INNER.height / 2})">${escape(chart.y)}</text>
</svg></figure>`;
}

type Place = (value: number) => number;

function line({ points }: Series, i: number, x: Place, y: Place): string {
  let isDrawing = false;
  const path = points.map(([px, py]) => {
    if (py === null) {
      isDrawing = false;
      return '';
    }
    const step = `${isDrawing ? 'L' : 'M'}${x(px)} ${y(py)}`;
    isDrawing = true;
    return step;
  });
  return `<path class="line s${i}" d="${path.join('')}"/>`;
}

/** The names stand at the ends of the lines, moved apart where they would overlap. */
function names(series: readonly Series[], y: Place): string[] {
  const ends = series
    .map(({ name, points }, i) => {
      const last = points.findLast(([, value]) => value !== null);
      return { name, i, at: last ? y(last[1] ?? 0) : TOP };
    })
    .sort((a, b) => a.at - b.at);
  // Upwards from the axis, so that none stands below it; then downwards, so that none stands above the chart.
  let most = TOP + INNER.height - 4;
  for (const end of ends.toReversed()) most = (end.at = Math.min(end.at, most)) - APART;
  let least = TOP + 4;
  for (const end of ends) least = (end.at = Math.max(end.at, least)) + APART;
  return ends.map(
    ({ name, i, at }) =>
      `<text class="name s${i}" x="${LEFT + INNER.width + 10}" y="${round(at + 4)}">${escape(name)}</text>`,
  );
}

function hovers({ series, x: label }: Chart, x: Place): string[] {
  const points = series[0]?.points ?? [];
  const width = round(INNER.width / Math.max(1, points.length - 1));
  return points.map(([px], at) => {
    const values = series.map(({ name, points: own }) => {
      const value = own[at]?.[1] ?? null;
      return `${name}: ${value === null ? 'none' : figure(value)}`;
    });
    const text = escape([`${label} ${figure(px)}`, ...values].join('\n'));
    return `<rect class="hover" x="${round(x(px) - width / 2)}" y="${TOP}" width="${width}" height="${INNER.height}"><title>${text}</title></rect>`;
  });
}

/** From 0 to the tick at or above `most`. */
function linear(most: number): Scale {
  const step = niceStep(most / 5);
  const count = Math.ceil(most / step - 1e-9);
  return {
    ticks: Array.from({ length: count + 1 }, (_, i) => i * step),
    at: (value) => value / (count * step),
  };
}

/** From 0 to `most` itself, so that lines end at the names. */
function upTo(most: number): Scale {
  const step = niceStep(most / 6);
  const count = Math.floor(most / step + 1e-9);
  return { ticks: Array.from({ length: count + 1 }, (_, i) => i * step), at: (value) => value / most };
}

function logarithmic(values: readonly number[]): Scale {
  const positive = values.filter((value) => value > 0);
  const from = Math.floor(Math.log10(Math.min(1, ...positive)));
  const to = Math.max(from + 1, Math.ceil(Math.log10(Math.max(1, ...positive)) - 1e-9));
  const at = (value: number) => (Math.log10(Math.max(value, 10 ** from)) - from) / (to - from);
  return { ticks: Array.from({ length: to - from + 1 }, (_, i) => 10 ** (from + i)), at };
}

/** 1, 2 or 5 times a power of ten. @returns the smallest one that is not below `least`. */
export function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return ([1, 2, 5, 10].find((each) => each * power >= least * (1 - 1e-9)) ?? 10) * power;
}

/** A figure for people: three digits that count, thousands apart. */
export function figure(value: number): string {
  if (value === 0) return '0';
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return Number(value.toFixed(Math.min(digits, 3))).toLocaleString('en-US', { maximumFractionDigits: 3 });
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

export function escape(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
