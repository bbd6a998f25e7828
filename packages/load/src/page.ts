import { chartPlace, chartScripts, escape, figure, type Chart } from './charts.ts';
import { growthText } from './growth.ts';
import { findingText } from './judge.ts';
import { failedShare, failuresOf, otherFailures, type Report } from './report.ts';
import { STYLE } from './style.ts';
import { TIMEOUT } from './wire.ts';

const PROMISES = {
  sign_outs: ['Sign-outs', 'Devices that kept the rules and were signed out'],
  duplicate_ids: ['Duplicate ids', 'Users, sessions or pairs that were issued twice'],
  revoked_accepted: ['Ended tokens accepted', 'Answers of 200 to a token that had ended'],
  good_refused: ['Good tokens refused', 'Verifies that refused the newest access token'],
  wrong_user: ['Wrong users', 'Answers about another user'],
} as const;

/** Findings on the page; more of them say the same. */
const SHOWN = 8;

/** `report.html`: one file, without anything to load. */
export function pageOf(report: Report): string {
  const { scenario, models, started, settings, herd } = report;
  const where = settings.own_service ? 'its own service on the embedded default' : settings.url;
  const failures = failuresOf(report);
  const charts = herd ? [herdChart(herd)] : chartsOverTime(report);
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Latchkey load: ${escape(scenario)}</title>
<style>${STYLE}</style>
<main>
<header>
<h1>${escape(scenario)} <span class="verdict ${failures.length === 0 ? 'good' : 'bad'}">${failures.length === 0 ? 'passed' : 'failed'}</span></h1>
<p>${escape(models)}</p>
<p class="about">${escape(started)} against ${escape(where)}${report.interrupted ? ', ended early' : ''}</p>
</header>
${promises(report)}
${herd ? charts.map(chartPlace).join('') + herdPart(herd) : ''}
${tiles(report)}
${herd ? '' : charts.map(chartPlace).join('\n')}
${operations(report)}
${errors(report)}
${notSeen(report)}
${settingsPart(report)}
</main>
${chartScripts(charts)}
</html>
`;
}

function promises(report: Report): string {
  const { correctness, judged, findings } = report;
  const cards = Object.entries(PROMISES).map(([key, [name, meaning]]) => {
    const count = correctness[key as keyof typeof PROMISES];
    return `<div class="card ${count === 0 ? 'good' : 'bad'}"><b>${count}</b><span>${name}</span><small>${meaning}</small></div>`;
  });
  const list = [...findings.slice(0, SHOWN).map(findingText), ...otherFailures(report)]
    .map((each) => `<li>${escape(each)}</li>`)
    .join('');
  return `<section class="cards">${cards.join('')}</section>
<p class="about">Judged: ${figure(judged.pairs_issued)} pairs issued, ${figure(judged.refreshes)} refreshes, tries with ${figure(judged.ended_tokens_tried)} ended and ${figure(judged.good_tokens_tried)} good tokens.</p>
${list && `<ul class="findings">${list}</ul>`}
${findings.length > SHOWN ? '<p class="about">report.json lists more.</p>' : ''}`;
}

function tiles({ totals, generator }: Report): string {
  const all: [string, string][] = [
    [figure(totals.ok_per_second), 'answers with 200 a second'],
    [ms(totals.p50), 'median from the due time'],
    [ms(totals.p99), '99th percentile'],
    [`${figure(failedShare(totals) * 100)}%`, 'of requests failed'],
    [figure(totals.not_begun), 'arrivals not begun in time'],
    [`${figure(generator.cpu * 100)}%`, 'of a core for the generator'],
  ];
  const cards = all.map(([value, name]) => `<div class="card"><b>${value}</b><span>${name}</span></div>`);
  return `<section class="cards small">${cards.join('')}</section>`;
}

function chartsOverTime({ over_time: intervals }: Report): Chart[] {
  const seconds = intervals.map(({ second }) => second);
  const of = (key: 'offered' | 'answered' | 'p50' | 'p90' | 'p99') => intervals.map((each) => each[key]);
  const codes = [...new Set(intervals.flatMap(({ errors: each }) => Object.keys(each)))].slice(0, 5);
  const charts: Chart[] = [
    {
      title: 'Requests a second',
      about: 'Offered: due in this second, retries included. If answered stays below it, a queue grows.',
      x: 'seconds',
      y: 'requests a second',
      names: ['offered', 'answered'],
      data: [seconds, of('offered'), of('answered')],
    },
    {
      title: 'Latency',
      about: `From the moment at which a request was due to its answer. A timeout counts as ${TIMEOUT / 1e3} s or more. Logarithmic.`,
      x: 'seconds',
      y: 'milliseconds',
      isLog: true,
      names: ['p99', 'p90', 'median'],
      data: [seconds, of('p99'), of('p90'), of('p50')],
    },
    {
      title: 'Failed requests',
      about: 'By code. A refused device waits as Retry-After says and tries again.',
      x: 'seconds',
      y: 'requests',
      names: codes,
      data: [seconds, ...codes.map((code) => intervals.map(({ errors: each }) => each[code] ?? 0))],
    },
  ];
  return charts.filter(({ names }) => names.length > 0);
}

function herdChart({ rounds }: NonNullable<Report['herd']>): Chart {
  const longest = Math.max(0, ...rounds.map(({ curve }) => curve.length));
  const tenths = Array.from({ length: longest }, (_, i) => i);
  return {
    title: 'Back after the outage',
    about: 'The share of devices that have refreshed, by the time since PostgreSQL was back.',
    x: 'seconds since the end of the outage',
    y: 'percent back',
    names: rounds.map(({ devices }) => `${figure(devices)} devices`),
    data: [
      tenths.map((i) => i / 10),
      ...rounds.map(({ curve }) => tenths.map((i) => (curve[i] ?? curve.at(-1) ?? 0) * 100)),
    ],
  };
}

function herdPart(herd: NonNullable<Report['herd']>): string {
  const rows = herd.rounds.map(({ devices, back, missing, tries, peak_per_second: peak }) =>
    [devices, back.p50, back.p90, back.p99, back.all, tries, peak, missing].map((value) =>
      value === null ? 'never' : figure(value),
    ),
  );
  return `${table(
    ['devices', 'half back, s', '90%, s', '99%, s', 'all, s', 'requests each', 'most a second', 'missing'],
    rows,
  )}
<p class="about">${escape(growthText(herd))} 1 means that the time until all are back grows as the devices do; below 1 is better.</p>`;
}

function operations({ operations: all }: Report): string {
  const rows = Object.entries(all).map(([name, each]) => [
    name,
    ...[each.requests, each.ok, each.lost_on_purpose, each.timeouts].map(figure),
    ...[each.p50, each.p90, each.p95, each.p99, each.p999, each.max].map(ms),
  ]);
  return `<h2>By operation</h2>${table(
    ['', 'requests', 'ok', 'lost', 'timeouts', 'median', 'p90', 'p95', 'p99', 'p99.9', 'longest'],
    rows,
  )}<p class="about"><code>ended</code> presents tokens that have ended; there, a refusal is ok. Lost: answers that a device lost on purpose. Latencies include timeouts, each as ${TIMEOUT / 1000} s or more.</p>`;
}

function errors({ errors: all }: Report): string {
  const rows = Object.entries(all).sort(([, a], [, b]) => b - a);
  if (rows.length === 0) return '';
  return `<h2>Failed requests</h2>${table(
    ['code', 'requests'],
    rows.map(([code, count]) => [code, figure(count)]),
  )}`;
}

function notSeen({ not_seen: all }: Report): string {
  if (all.length === 0) return '';
  const list = all.map((each) => `<li>${escape(each)}</li>`).join('');
  return `<h2>What this report cannot know</h2><ul class="about">${list}</ul>`;
}

function settingsPart({ settings, thresholds, generators, machine, generator }: Report): string {
  const all = { ...settings, ...thresholds, generators, ...machine, late_p99_ms: generator.late_p99_ms };
  const rows = Object.entries(all);
  return `<h2>Settings and machine</h2>${table(
    ['', ''],
    rows.map(([name, value]) => [name.replaceAll('_', ' '), String(value ?? 'none')]),
  )}`;
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = (tag: string, row: readonly string[]) =>
    `<tr>${row.map((cell) => `<${tag}>${escape(cell)}</${tag}>`).join('')}</tr>`;
  return `<div class="scroll"><table>${cells('th', head)}${rows.map((row) => cells('td', row)).join('')}</table></div>`;
}

function ms(value: number | null): string {
  return value === null ? 'none' : `${figure(value)} ms`;
}
