import type { Place } from './export-file.ts';

/** What became of the accounts: reasons with their places, and no value of the file. */
export interface Report {
  /** All that follows is about the account there. It counts as converted unless it is left out. */
  at(place: Place): void;
  leftOut(reason: string): null;
  withoutPassword(reason: string): null;
  /** It may open with less than its user needed before. */
  unknownFactor(reason: string): void;
  note(reason: string): void;
  isWell(): boolean;
  result(): object;
  text(): string;
}

/** In the order in which the report lists them. */
const KINDS = {
  left_out: 'left out',
  without_password: 'without a password',
  unknown_factor: 'second factor unknown',
  note: 'note',
} as const;

interface Finding {
  kind: keyof typeof KINDS;
  reason: string;
  count: number;
  /** The first and last of consecutive places. */
  ranges: [number, number][];
}

export function makeReport(): Report {
  const findings = new Map<string, Finding>();
  let [accounts, leftOut] = [0, 0];
  let current: Place = { kind: 'line', at: 0 };

  function find(kind: Finding['kind'], reason: string): null {
    const key = `${kind} ${reason}`;
    const finding = findings.get(key) ?? { kind, reason, count: 0, ranges: [] };
    findings.set(key, finding);
    const last = finding.ranges.at(-1);
    if (last?.[1] === current.at) return null;
    finding.count++;
    if (last?.[1] === current.at - 1) last[1] = current.at;
    else finding.ranges.push([current.at, current.at]);
    return null;
  }

  const sorted = () =>
    Object.keys(KINDS).flatMap((kind) => [...findings.values()].filter((finding) => finding.kind === kind));
  const placesOf = ({ ranges }: Finding) => ranges.map(([from, to]) => placeName(current.kind, from, to));

  return {
    at(place) {
      accounts++;
      current = place;
    },
    leftOut(reason) {
      leftOut++;
      return find('left_out', reason);
    },
    withoutPassword: (reason) => find('without_password', reason),
    unknownFactor: (reason) => {
      find('unknown_factor', reason);
    },
    note: (reason) => {
      find('note', reason);
    },
    isWell: () => sorted().every(({ kind }) => kind === 'note'),
    result: () => ({
      converted: accounts - leftOut,
      left_out: leftOut,
      findings: sorted().map(({ kind, reason, count, ...rest }) => ({
        kind,
        reason,
        count,
        places: placesOf({ kind, reason, count, ...rest }),
      })),
    }),
    text: () =>
      [
        `converted ${accounts - leftOut} accounts, left out ${leftOut}`,
        ...sorted().map(
          (finding) =>
            `${KINDS[finding.kind]}, ${finding.count}: ${finding.reason} (${placesOf(finding).join(', ')})`,
        ),
      ].join('\n'),
  };
}

/** Lines, or indices of the list as jq takes them. */
function placeName(kind: Place['kind'], from: number, to: number): string {
  if (kind === 'line') return from === to ? `line ${from}` : `lines ${from} to ${to}`;
  return from === to ? `[${from}]` : `[${from}] to [${to}]`;
}
