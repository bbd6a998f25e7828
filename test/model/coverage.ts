import type { Presentation, RotationOutcome, SessionState } from '../../src/domain/tokens/session-state.ts';

/** Every line of rotation.md's table, split into its distinct cases. */
const ROWS = [
  'issued: ahead',
  'issued: current',
  'repeated',
  'held: older',
  'held: other client',
  'issued: gap',
  'issued: unconfirmed',
  'reused',
  'refused: stale',
  'refused: clock',
  'reused again',
  'access: good, first use',
  'access: good again',
  'access: good, ahead',
  'access: superseded',
] as const;

/** Limits to hit exactly: the last microsecond inside and the first one outside. */
const EDGES = ['window', 'lead for recent', 'lead', 'issue', 'elapsed'] as const;

export type Row = (typeof ROWS)[number];

/** Counts how often each line was taken, by window, and each limit hit. */
export function makeCoverage() {
  const rows = new Map<string, number>();
  const edges = new Map<string, number>();
  const count = (map: Map<string, number>, name: string) => map.set(name, (map.get(name) ?? 0) + 1);

  return {
    row(row: Row, window: number): void {
      count(rows, `${row}, window ${window > 0 ? 'on' : 'off'}`);
    },
    edges(state: SessionState, presented: Presentation): void {
      for (const name of EDGES) {
        const past = beyond(name, state, presented);
        if (past === 0 || past === 1) count(edges, `${name}, ${past === 0 ? 'inside' : 'outside'}`);
      }
    },
    /** @param exact whether limits can be hit. @returns a line per count, and the cases that never occurred. */
    report({ exact }: { exact: boolean }): { lines: string[]; never: string[] } {
      const expected = ROWS.flatMap((row) => [`${row}, window off`, `${row}, window on`]);
      const limits = exact ? EDGES.flatMap((edge) => [`${edge}, inside`, `${edge}, outside`]) : [];
      const lines = [
        ...expected.map((name) => [name, rows] as const),
        ...limits.map((name) => [name, edges] as const),
      ];
      return {
        lines: lines.map(([name, map]) => `${String(map.get(name) ?? 0).padStart(8)}  ${name}`),
        never: [...expected.filter((name) => !rows.has(name)), ...limits.filter((name) => !edges.has(name))],
      };
    },
  };
}

export type Coverage = ReturnType<typeof makeCoverage>;

export function rowOf(state: SessionState, { generation }: Presentation, answer: RotationOutcome): Row {
  switch (answer.outcome) {
    case 'issued':
      return `issued: ${answer.row}`;
    case 'refused':
      return `refused: ${answer.reason}`;
    case 'held':
      return generation === state.parent ? 'held: other client' : 'held: older';
    default:
      return answer.outcome;
  }
}

/** The distance of a presentation from the deciding limit, in microseconds. */
function beyond(edge: (typeof EDGES)[number], state: SessionState, presented: Presentation): number {
  const { generation, now, elapsed, window } = presented;
  const latest = Math.max(state.latest, generation);
  const superseded = generation < latest;
  switch (edge) {
    case 'window':
      return superseded && window > 0 && now - elapsed > latest ? now - latest - window : NaN;
    case 'lead for recent':
      return superseded ? latest - now - Math.max(1_000_000, window) : NaN;
    case 'lead':
      return superseded ? NaN : latest - now - 60_000_000;
    case 'issue':
      return superseded && now - latest > window ? now - elapsed - latest : NaN;
    case 'elapsed':
      return elapsed - 5_000_000;
  }
}
