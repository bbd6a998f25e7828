import { callListener } from './call-listener.ts';

/**
 * Reports each failure once per outage; null ends the outage, which `recovered` hears of if a failure was reported. Errors
 * of either are ignored, so that they cannot stop the background work.
 */
export function reportOnce<Failure extends Error>(
  report: (error: Failure) => void,
  recovered: () => void = () => undefined,
): (error: Failure | null) => void {
  const reported = new Set<string>();
  return (error) => {
    if (error === null) {
      if (reported.size === 0) return;
      reported.clear();
      callListener(recovered);
    } else if (!reported.has(error.message)) {
      reported.add(error.message);
      callListener(report, error);
    }
  };
}
