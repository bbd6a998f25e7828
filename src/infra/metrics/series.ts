import type { Family } from './registry.ts';

/**
 * One series for each value of a label, from the start on: what never happened is 0 and not missing, and its first time
 * is a rise that an alert can see.
 */
export function seriesOf<Instrument, Value extends string>(
  family: Family<Instrument>,
  label: string,
  values: readonly Value[],
  labels: Readonly<Record<string, string>> = {},
): Record<Value, Instrument> {
  const entries = values.map((value) => [value, family.with({ ...labels, [label]: value })] as const);
  return Object.fromEntries(entries) as Record<Value, Instrument>;
}
