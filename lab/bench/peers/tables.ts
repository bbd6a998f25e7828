import { existsSync, readFileSync } from 'node:fs';
import { barChart } from '../../bar-chart.ts';
import { count, reportText, sourceText, spread, type Figures, type Table } from '../../table.ts';
import { settingsText } from '../report.ts';
import { sampleOf } from '../statistics.ts';
import { readPeersDocument, type PeerEntry, type PeersDocument } from './document.ts';
import { GLEWLWYD } from './glewlwyd.ts';
import { LATCHKEY } from './latchkey.ts';
import { PEER_OPERATIONS } from './servers.ts';
import { commandText, countText } from './work.ts';

const COMMAND = 'npm run bench -- --peers --save';
/** In docs/. */
export const FIGURES = 'benchmarks-peers.json';
const COMMITTED = new URL(`../../../../docs/${FIGURES}`, import.meta.url).pathname;

/** Above this share of a core the generator limits the server. */
const SATURATED = 0.9;
/** Below this share of a core, a process of Node waited for other work. */
const STARVED = 0.8;
/** Wider than this share of the median, the middle half of the rounds says that the machine was busy. */
const NOISY = 0.2;

/** @returns null if no figures are committed. */
export function committedPeers(): PeersDocument | null {
  return existsSync(COMMITTED) ? readPeersDocument(readFileSync(COMMITTED, 'utf8')) : null;
}

/** For docs/performance.md: the speed alone. */
export function peerFigures(document: PeersDocument | null): Figures {
  return { [COMMAND]: document && reportOf(document, [speedTable(document.entries)]) };
}

export function peersText(document: PeersDocument): string {
  return reportOf(document, [speedTable(document.entries), workTable(document.entries)]);
}

function reportOf(document: PeersDocument, tables: readonly Table[]): string {
  const { date, machine, settings } = document;
  return reportText(tables, peerNotes(document), sourceText(date, machine, settingsText(settings)));
}

/** docs/images/peers.svg */
export function peersPicture({ entries }: PeersDocument): string {
  return barChart({
    title: 'Requests a second, beside others',
    subtitle: 'on one machine, with the same stores',
    about: 'Requests a second, by npm run bench -- --peers. docs/performance.md has the figures in a table.',
    groups: PEER_OPERATIONS.map((operation) => ({
      title: operation,
      bars: entries
        .filter((each) => each.operation === operation)
        .map(({ server, perSecond: { median } }) => ({
          label: server.replace('@better-auth/oauth-provider', 'better-auth OAuth'),
          value: median,
          text: count(median),
          isOurs: server === LATCHKEY,
        })),
    })),
  });
}

function speedTable(entries: readonly PeerEntry[]): Table {
  return {
    title: 'Speed of the peers',
    head: [
      'operation',
      'server',
      'version',
      'requests/s',
      'CPU µs each',
      'Latchkey, times as fast',
      'times, by CPU',
    ],
    rows: inOrder(entries).map(({ operation, server, version, perSecond, micros, ...entry }) => [
      operation,
      server,
      version,
      spread(perSecond, 0),
      micros,
      factorText(entry.factors),
      // Most of Glewlwyd's work is PostgreSQL's.
      server === GLEWLWYD ? '' : factorText(entry.cpuFactors),
    ]),
  };
}

function workTable(entries: readonly PeerEntry[]): Table {
  return {
    title: 'What a request of them costs',
    head: ['operation', 'server', 'request', 'Redis commands', 'SQL transactions', 'signatures'],
    rows: inOrder(entries).flatMap(({ operation, server, request, work, signatures }) =>
      work
        ? [
            [
              operation,
              server,
              `\`${request}\``,
              commandText(work.commands),
              countText(work.transactions),
              signatures,
            ],
          ]
        : [],
    ),
  };
}

function inOrder(entries: readonly PeerEntry[]): PeerEntry[] {
  return PEER_OPERATIONS.flatMap((operation) => entries.filter((each) => each.operation === operation));
}

/** The median, with the range of the middle half; empty for Latchkey itself. */
function factorText(factors: readonly number[]): string {
  return factors.length === 0 ? '' : spread(sampleOf(factors), 1);
}

/** What the figures of this run leave out, and what makes them doubtful. */
function peerNotes({ entries, missing, limits, loadBefore, stores }: PeersDocument): string[] {
  const doubts = entries.flatMap((entry) => doubtsOf(entry));
  return [
    ...missing,
    ...limits.map(
      ({ setting, what, value, limit, isMet }) =>
        `goal ${isMet ? 'met' : 'MISSED'}: ${what}: ${value.toFixed(1)}, at least ${limit} (${setting})`,
    ),
    ...doubts,
    `load average before the run: ${loadBefore.toFixed(2)}`,
    stores,
  ];
}

function doubtsOf({ server, operation, perSecond, serverCpu, generatorCpu }: PeerEntry): string[] {
  const name = `${server}, ${operation}`;
  const width = (perSecond.high - perSecond.low) / perSecond.median;
  return [
    ...(generatorCpu > SATURATED ? [`${name}: the load generator was the bottleneck`] : []),
    // Glewlwyd waits for PostgreSQL.
    ...(server !== GLEWLWYD && serverCpu > 0 && serverCpu < STARVED
      ? [`${name}: the server got ${serverCpu.toFixed(2)} of a core: the machine was busy`]
      : []),
    ...(width > NOISY
      ? [`${name}: noisy, the middle half of the rounds spans ${Math.round(100 * width)}%`]
      : []),
  ];
}
