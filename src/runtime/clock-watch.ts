import type { FastifyBaseLogger } from 'fastify';
import type { Clock } from '../domain/clock.ts';

/** A store whose clock ours is compared with. */
interface OtherClock {
  name: 'PostgreSQL' | 'Redis';
  /** The time of each of its servers, in milliseconds since 1970. Rejects if the store does not answer. */
  ask: () => Promise<number[]>;
}

/** Knows whether our wall clock can be right (ADR 3). */
export interface ClockWatch {
  /** Asks every store. One that does not answer keeps its last time, which our monotonic clock carries on. */
  compare: () => Promise<void>;
  /** False if our clock differs from every store's by more than the leeway. True before the first answer. */
  isTrusted: () => boolean;
  /** True if, besides, at least two stores agree on another time. */
  isWrong: () => boolean;
  /** `ok`, or how our clock differs from which stores, and what to do. */
  state: () => string;
  /** By how many seconds our clock is ahead of each store's that has answered. */
  skews: () => { store: OtherClock['name']; seconds: number }[];
}

interface ClockWatchOptions {
  others: readonly OtherClock[];
  clock: Pick<Clock, 'now' | 'monotonic'>;
  /** By how many seconds the clocks of those who check tokens may differ. */
  leeway: number;
  logger: Pick<FastifyBaseLogger, 'warn' | 'info'>;
}

/** A store's clock minus our monotonic one, in milliseconds, and the error of that measurement. */
interface Reading {
  offset: number;
  within: number;
}

/** Milliseconds. A slower answer says too little about the time: the store, or this process, stood still. */
const MAX_ROUND_TRIP = 1000;

/** A clock is right again only below the leeway by this share: one at the limit must not switch it each second. */
const HYSTERESIS = 0.2;

const TODO = 'synchronize the clocks of all servers with NTP';

export function makeClockWatch({ others, clock, leeway, logger }: ClockWatchOptions): ClockWatch {
  const stores = others.map((other) => ({ ...other, reading: null as Reading | null, differs: false }));
  let [isTrusted, isWrong] = [true, false];
  const ownOffset = () => clock.now() - clock.monotonic();
  let before = ownOffset();

  const skewOf = ({ offset }: Reading) => ownOffset() - offset;

  async function read(store: (typeof stores)[number]): Promise<void> {
    const asked = clock.monotonic();
    const times = await store.ask();
    const within = (clock.monotonic() - asked) / 2;
    if (2 * within > MAX_ROUND_TRIP) return;
    const readings = times.map((time) => ({ offset: time - (asked + within), within }));
    // Of several masters, the one that differs most.
    readings.sort((a, b) => Math.abs(skewOf(b)) - Math.abs(skewOf(a)));
    store.reading = readings[0] ?? store.reading;
  }

  function judge(): void {
    const answered = stores.flatMap((store) => (store.reading ? [{ store, reading: store.reading }] : []));
    for (const { store, reading } of answered) {
      const limit = 1000 * leeway * (store.differs ? 1 - HYSTERESIS : 1);
      const differs = Math.abs(skewOf(reading)) - reading.within > limit;
      if (differs !== store.differs) log(store.name, reading, differs);
      store.differs = differs;
    }
    isTrusted = answered.length === 0 || answered.some(({ store }) => !store.differs);
    const offsets = answered.map(({ reading }) => reading.offset);
    const doAgree = Math.max(...offsets) - Math.min(...offsets) <= 1000 * leeway;
    isWrong = !isTrusted && answered.length > 1 && doAgree;
  }

  /** Embedded stores share our clock, so nothing but the jump itself shows that it was wrong before, or is now. */
  function noteJump(): void {
    const seconds = Math.round((ownOffset() - before) / 1000);
    before = ownOffset();
    if (Math.abs(seconds) <= leeway || stores.some(({ reading }) => reading)) return;
    logger.warn(
      { seconds },
      'the clock of this machine jumped: it was set, or the machine slept. Sessions that were opened or refreshed later than it says now are answered 503 until it has caught up',
    );
  }

  function log(store: OtherClock['name'], { offset }: Reading, differs: boolean): void {
    const theirs = new Date(clock.monotonic() + offset).toISOString();
    const times = { ours: new Date(clock.now()).toISOString(), theirs };
    if (differs) logger.warn(times, `the clock of this replica differs from that of ${store}: ${TODO}`);
    else logger.info(times, `the clock of this replica agrees with that of ${store} again`);
  }

  function skews() {
    return stores.flatMap(({ name, reading }) =>
      reading ? [{ store: name, seconds: skewOf(reading) / 1000 }] : [],
    );
  }

  return {
    async compare() {
      await Promise.allSettled(
        stores.map(async (store) => {
          await read(store);
          judge();
        }),
      );
      noteJump();
    },
    isTrusted: () => isTrusted,
    isWrong: () => isWrong,
    state() {
      const differing = new Set(stores.filter(({ differs }) => differs).map(({ name }) => name));
      const found = skews()
        .filter(({ store }) => differing.has(store))
        .map(({ store, seconds }) =>
          [Math.round(Math.abs(seconds)), 's', seconds > 0 ? 'ahead of' : 'behind', store].join(' '),
        );
      return found.length === 0 ? 'ok' : `${found.join(', ')}: ${TODO}`;
    },
    skews,
  };
}
