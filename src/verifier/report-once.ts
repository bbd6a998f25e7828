/**
 * Reports a failure when it begins and not each time that it is met again; null says that it is over. What follows Latchkey
 * in the background goes on whatever the report does.
 */
export function reportOnce(report: (error: Error) => void): (error: Error | null) => void {
  let last: string | null = null;
  return (error) => {
    const isNew = error !== null && error.message !== last;
    last = error?.message ?? null;
    try {
      if (isNew) report(error);
    } catch {
      // Nobody is left who could be told.
    }
  };
}
