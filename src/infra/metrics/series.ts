import type { Family } from './registry.ts';

/**
 * Creates one series for each value of a label at the start. So an event that never happened is 0 instead of missing,
 * and an alert sees its first occurrence as an increase.
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
