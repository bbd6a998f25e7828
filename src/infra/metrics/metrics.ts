import type { Build } from '../../telemetry/build.ts';
import type { Observe } from '../../telemetry/observe.ts';
import { makeFeedMetrics } from './feed-metrics.ts';
import { addGauges, addProcess, type Sources } from './gauges.ts';
import { makeRegistry } from './registry.ts';
import { makeRequestMetrics } from './request-metrics.ts';
import { makeStoreMetrics } from './store-metrics.ts';
import { makeTokenMetrics } from './token-metrics.ts';
import { makeWorkMetrics } from './work-metrics.ts';

export interface Metrics {
  observe: Observe;
  /** Adds the metrics that are read at each scrape. Their sources exist only after the start. */
  watch(sources: Sources): void;
  /** Prometheus's text format. */
  text(): Promise<string>;
}

/** Every metric of docs/observability.md. @param now milliseconds since 1970. */
export function makeMetrics(options: { hasRedis: boolean; now: () => number; build: Build }): Metrics {
  const registry = makeRegistry();
  const observe: Observe = {
    ...makeRequestMetrics(registry),
    ...makeTokenMetrics(registry),
    ...makeWorkMetrics(registry, options.now),
    ...makeStoreMetrics(registry, options.hasRedis),
    ...makeFeedMetrics(registry),
  };
  addProcess(registry, options.build);
  return {
    observe,
    watch: (sources) => {
      addGauges(registry, sources);
    },
    text: () => registry.text(),
  };
}
