import type { FeedPosition } from './ports.ts';

const TEXT = /^([\w-]{1,64})\.(0|[1-9]\d{0,15})$/;

/** The id of an event as readers send it back; what we did not write is no position. */
export function parsePosition(text: string): FeedPosition | null {
  const [, epoch, digits] = TEXT.exec(text) ?? [];
  const seq = Number(digits);
  return epoch !== undefined && Number.isSafeInteger(seq) ? { epoch, seq } : null;
}

export function positionText({ epoch, seq }: FeedPosition): string {
  return `${epoch}.${seq}`;
}
