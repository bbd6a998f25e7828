/**
 * Reports each failure once per outage; null ends the outage, which `recovered` hears of if a failure was reported. An
 * error thrown by either is ignored, so that it cannot stop the background work.
 */
export function reportOnce<Failure extends Error>(
  report: (error: Failure) => void,
  recovered: () => void = () => undefined,
): (error: Failure | null) => void {
  const reported = new Set<string>();
  return (error) => {
    try {
      if (error === null) {
        if (reported.size === 0) return;
        reported.clear();
        recovered();
      } else if (!reported.has(error.message)) {
        reported.add(error.message);
        report(error);
      }
    } catch {
      // There is no other place to report this.
    }
  };
}
