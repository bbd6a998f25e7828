import { readFileSync } from 'node:fs';

export interface Chart {
  title: string;
  /** What to see, in one sentence. */
  about: string;
  x: string;
  y: string;
  /** At most five: the page has as many colors. */
  names: readonly string[];
  /** The places on the x axis, then the values of each name; null leaves a gap. */
  data: readonly (readonly (number | null)[])[];
  /** A logarithmic y axis, for latencies. */
  isLog?: boolean;
}

const read = (file: string) => readFileSync(new URL(import.meta.resolve(`uplot/dist/${file}`)), 'utf8');

/** Runs in the browser. The colors are variables of the page (style.ts). */
const DRAW = `
const color = (name) => () => getComputedStyle(document.documentElement).getPropertyValue('--' + name);
const axis = (label) => ({ label, stroke: color('muted'), grid: { stroke: color('line'), width: 1 }, ticks: { show: false } });
const places = [...document.querySelectorAll('.chart')];
const sizeOf = (place) => ({ width: place.clientWidth, height: 300 });
const plots = charts.map(({ x, y, names, data, isLog }, i) => new uPlot({
  ...sizeOf(places[i]),
  scales: { x: { time: false }, y: isLog ? { distr: 3 } : { range: { min: { hard: 0, mode: 1 }, max: { pad: 0.1 } } } },
  axes: [axis(x), { ...axis(y), size: 64 }],
  series: [{ label: x }, ...names.map((label, s) => ({ label, stroke: color('s' + s), width: 2, points: { show: false } }))],
}, data, places[i]));
addEventListener('resize', () => plots.forEach((plot, i) => plot.setSize(sizeOf(places[i]))));
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => plots.forEach((plot) => plot.redraw()));
`;

/** Where a chart is drawn. */
export function chartPlace({ title, about }: Chart): string {
  return `<figure><h2>${escape(title)}</h2><p class="about">${escape(about)}</p><div class="chart"></div></figure>`;
}

/** uPlot itself, and what draws these charts into their places, in order. */
export function chartScripts(charts: readonly Chart[]): string {
  // Names come from answers: they must not end the script.
  const json = JSON.stringify(charts).replaceAll('<', '\\u003c');
  return `<style>${read('uPlot.min.css')}</style>
<script>${read('uPlot.iife.min.js')}</script>
<script>const charts = ${json};${DRAW}</script>`;
}

/** A figure for people: three digits that count, thousands apart. */
export function figure(value: number): string {
  if (value === 0) return '0';
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return Number(value.toFixed(Math.min(digits, 3))).toLocaleString('en-US', { maximumFractionDigits: 3 });
}

export function escape(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
