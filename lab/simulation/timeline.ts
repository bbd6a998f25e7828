/** Scheduled events by second. */
export function makeTimeline(start: number) {
  const due: { at: number; happen: () => void }[] = [];
  let now = start;
  return {
    now: () => now,
    after(seconds: number, happen: () => void): void {
      const at = now + seconds;
      let place = due.length;
      while (place > 0 && (due[place - 1]?.at ?? 0) <= at) place--;
      due.splice(place, 0, { at, happen });
    },
    /** Runs all events until the end, or until the caller stops. */
    run(end: number, isOver: () => boolean): void {
      for (let next = due.pop(); next && next.at <= end && !isOver(); next = due.pop()) {
        now = next.at;
        next.happen();
      }
    },
  };
}

export type Timeline = ReturnType<typeof makeTimeline>;
