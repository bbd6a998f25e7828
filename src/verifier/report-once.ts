/**
 * Reports a failure once per outage; null ends the outage. An error thrown by the report itself is ignored, so that it
 * cannot stop the background work.
 */
export function reportOnce(report: (error: Error) => void): (error: Error | null) => void {
  let last: string | null = null;
  return (error) => {
    const isNew = error !== null && error.message !== last;
    last = error?.message ?? null;
    try {
      if (isNew) report(error);
    } catch {
      // There is no other place to report this.
    }
  };
}
