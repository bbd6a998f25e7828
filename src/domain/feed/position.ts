import type { FeedPosition } from './ports.ts';

const TEXT = /^([\w-]{1,64})\.(0|[1-9]\d{0,15})$/;

/** Parses an event id that a reader sends back. @returns null if the text is not one of our ids. */
export function parsePosition(text: string): FeedPosition | null {
  const [, epoch, digits] = TEXT.exec(text) ?? [];
  const seq = Number(digits);
  return epoch !== undefined && Number.isSafeInteger(seq) ? { epoch, seq } : null;
}

export function positionText({ epoch, seq }: FeedPosition): string {
  return `${epoch}.${seq}`;
}
