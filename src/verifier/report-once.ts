/** Reports a failure when it begins and not each time that it is met again; null says that it is over. */
export function reportOnce(report: (error: Error) => void): (error: Error | null) => void {
  let last: string | null = null;
  return (error) => {
    const isNew = error !== null && error.message !== last;
    last = error?.message ?? null;
    if (isNew) report(error);
  };
}
