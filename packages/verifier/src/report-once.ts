/**
 * Reports each failure once per outage; null ends the outage. An error thrown by the report itself is ignored, so that
 * it cannot stop the background work.
 */
export function reportOnce<Failure extends Error>(
  report: (error: Failure) => void,
): (error: Failure | null) => void {
  const reported = new Set<string>();
  return (error) => {
    if (error === null) {
      reported.clear();
      return;
    }
    if (reported.has(error.message)) return;
    reported.add(error.message);
    try {
      report(error);
    } catch {
      // There is no other place to report this.
    }
  };
}
