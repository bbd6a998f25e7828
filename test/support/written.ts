import type { TestApp } from './app.ts';
import { until } from './until.ts';

/** Resolves once write-behind has brought all that it noted to the records; its background tasks must run. */
export async function written({ composition }: TestApp): Promise<void> {
  await until(async () => /^latchkey_write_behind_records 0$/m.test(await composition.ops.metrics()));
}
