/** Each unit's kind, and its size in seconds, bytes or percent. */
const UNITS: Readonly<Record<string, readonly [kind: string, size: number]>> = {
  ms: ['time', 0.001],
  millisecond: ['time', 0.001],
  s: ['time', 1],
  second: ['time', 1],
  min: ['time', 60],
  minute: ['time', 60],
  h: ['time', 3600],
  hour: ['time', 3600],
  day: ['time', 86_400],
  byte: ['size', 1],
  KiB: ['size', 1024],
  MiB: ['size', 1024 ** 2],
  GiB: ['size', 1024 ** 3],
  percent: ['share', 1],
  '%': ['share', 1],
};
const WORDS = ['', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten'];
const UNIT = `(?:${Object.keys(UNITS).join('|')})(?:(?<=[a-z]{3})s)?(?!\\w)`;
const DIGITS = String.raw`\d+(?:[,_]\d{3})*(?:\.\d+)?`;
const WORD = `(?:an?|${WORDS.slice(1).join('|')})`;

/** `10`, `10 s`, `ten minutes`, `85%`, `30/60`, `100 accounts an hour`. A number in words has a unit. */
export const QUANTITY =
  String.raw`(?<![\w.,-])(?:${DIGITS}/\d+|(?:${DIGITS}(?:[\s-]*${UNIT})?|${WORD}\s+${UNIT})` +
  String.raw`(?:\s+(?:[a-z-]+\s+){0,2}?(?:an?|each|per)\s+${UNIT})?)(?![\w/]|[,.]\d)`;
const PARTS = new RegExp(
  `^(?<count>${DIGITS}|${WORD})(?:/(?<seconds>\\d+)|[\\s-]*(?<unit>${UNIT}))?(?:\\s.*\\s(?<each>${UNIT}))?$`,
  's',
);

export interface Quantity {
  /** In seconds, bytes or percent; of a plain number, the number. */
  amount: number;
  /** `time`, `size` or `share`; empty for a plain number. */
  kind: string;
  /** Of a rate, in seconds. */
  window: number | null;
}

/** @returns null if the text is no quantity alone. */
export function readQuantity(text: string): Quantity | null {
  const { count, seconds, unit, each } = PARTS.exec(text.trim())?.groups ?? {};
  if (count === undefined) return null;
  const number = /^\d/.test(count)
    ? Number(count.replaceAll(/[,_]/g, ''))
    : Math.max(1, WORDS.indexOf(count));
  const [kind, size] = unitOf(unit);
  return { amount: number * size, kind, window: each ? unitOf(each)[1] : seconds ? Number(seconds) : null };
}

function unitOf(name = ''): readonly [kind: string, size: number] {
  return UNITS[name] ?? UNITS[name.replace(/s$/, '')] ?? ['', 1];
}

/** Whether a page states a value of the source. A number without a unit counts in the unit of the source. */
export function states(written: string, value: string): boolean {
  const [page, source] = [readQuantity(written), readQuantity(value)];
  if (!page || !source) return written.replaceAll(/\s/g, '') === value;
  if (page.kind === '') return page.amount === Number.parseFloat(value) && isSameWindow(page, source);
  return page.kind === source.kind && Math.abs(page.amount - source.amount) < 1e-9;
}

function isSameWindow({ window: page }: Quantity, { window: source }: Quantity): boolean {
  return page === null || page === source;
}
