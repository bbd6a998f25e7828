import type { FeedPosition, RevocationFeed } from '../feed/ports.ts';
import type { Right } from '../rights.ts';
import type { FeedReaderStore, ReaderPosition, ReaderRecord } from './ports.ts';

interface ListReadersPorts {
  store: Pick<FeedReaderStore, 'page' | 'servicesWithoutReader'>;
  /** With the epochs that readers know. */
  feed: Pick<RevocationFeed, 'end'>;
}

export interface ReaderPage {
  readers: { reader: ReaderRecord; behind: number | null }[];
  /** null on the last page. */
  next: ReaderPosition | null;
  /** Enabled services with the right `revocations`. */
  withoutReader: { serviceId: string; name: string }[];
}

/** The right to read the feed. */
const TO_READ: Right = 'revocations';

/** Who reads the feed, in pages. @throws AuthError `unavailable` */
export function makeListReaders({ store, feed }: ListReadersPorts) {
  return async (after: ReaderPosition | null, limit: number): Promise<ReaderPage> => {
    const [found, withoutReader] = await Promise.all([
      store.page(after, limit + 1),
      store.servicesWithoutReader(TO_READ),
    ]);
    // After the readers, so that nobody is ahead of it.
    const end = await feed.end();
    const page = found.slice(0, limit);
    const { serviceId, reader } = page.at(-1) ?? {};
    return {
      readers: page.map((each) => ({ reader: each, behind: behindOf(each.position, end) })),
      next:
        found.length > limit && serviceId !== undefined && reader !== undefined
          ? { serviceId, reader }
          : null,
      withoutReader,
    };
  };
}

export type ListReaders = ReturnType<typeof makeListReaders>;

/** How many events a reader has not confirmed; null if that is unknown: its position is none of this feed. */
export function behindOf(position: FeedPosition | null, end: FeedPosition): number | null {
  if (position?.epoch !== end.epoch || position.seq > end.seq) return null;
  return end.seq - position.seq;
}
