import { makeNeedles, type Finding, type Kind } from './needles.ts';
import { secretsInHttp } from './http-secrets.ts';
import { tapConnections } from './wire-tap.ts';

/** Where a secret may never turn up. */
const PLACES = ['log', 'metrics', 'spans'] as const;
export type Place = (typeof PLACES)[number];

/** One running instance and all its output. */
export interface Watched {
  heard(place: Place, text: string | Buffer): void;
  /** Its API, so that the watch reads the requests to it. */
  listensOn(url: string): void;
  /** Searches the output for all secrets known by now. */
  check(): void;
}

/**
 * Searches all output of watched instances for the secrets that they received or issued. Off and without cost unless a
 * test file imports test/support/watch-leaks.ts.
 */
export function makeLeakWatch() {
  const needles = makeNeedles();
  const ports = new Set<number>();
  const searched: Record<Place, number> = { log: 0, metrics: 0, spans: 0 };
  const problems: string[] = [];
  let flush: () => void = () => undefined;
  let isOn = false;
  /** The number of secrets on the wire, without those of the configuration. */
  let sent = 0;

  function readWire(text: string): void {
    const before = needles.count();
    for (const [kind, value] of secretsInHttp(text)) needles.remember(kind, value);
    sent += needles.count() - before;
  }

  return {
    get isOn() {
      return isOn;
    },
    turnOn(): void {
      if (isOn) return;
      isOn = true;
      flush = tapConnections(ports, readWire);
    },
    /** A secret of the configuration. */
    remember(kind: Kind, value: string): void {
      needles.remember(kind, value);
    },
    /** Reads a request or answer of an app without a socket. */
    exchanged(text: string): void {
      if (isOn) readWire(text);
    },
    /** @param name for the report. @param mayBeSilent allows an instance without a log. */
    watch(name: string, mayBeSilent = false): Watched {
      const texts: Record<Place, Buffer[]> = { log: [], metrics: [], spans: [] };
      return {
        heard(place, text) {
          if (isOn) texts[place].push(typeof text === 'string' ? Buffer.from(text) : text);
        },
        listensOn: (url) => ports.add(Number(new URL(url).port)),
        check() {
          if (!isOn) return;
          flush();
          for (const place of PLACES) {
            const text = Buffer.concat(texts[place]).toString();
            texts[place] = [];
            searched[place] += text.length;
            if (place === 'log' && text === '' && !mayBeSilent) problems.push(`${name} logged nothing`);
            problems.push(
              ...firstOfEachKind(needles.search(text)).map((found) => `${name}: ${described(place, found)}`),
            );
          }
        },
      };
    },
    /** The problems of the whole test file: leaks, and places that no test searched. */
    problems(): string[] {
      const unseen = PLACES.filter((place) => searched[place] === 0).map((place) => `no ${place}`);
      if (sent === 0) unseen.push('no secret on the wire');
      return [
        ...new Set(problems),
        ...(unseen.length > 0 ? [`nothing was searched: ${unseen.join(', ')}`] : []),
      ];
    },
  };
}

/** Counts the same leak on many lines once. */
function firstOfEachKind(findings: Finding[]): Finding[] {
  return findings.filter(({ kind }, i) => findings.findIndex((other) => other.kind === kind) === i);
}

function described(place: Place, { kind, line }: Finding): string {
  return `LEAK in its ${place}: ${kind}: ${line}`;
}

/** The watch of this process. */
export const leakWatch = makeLeakWatch();
