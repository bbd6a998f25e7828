/** What is to happen, by the second at which it happens. */
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
    /** Lets everything happen until the end, or until nothing more is wanted. */
    run(end: number, isOver: () => boolean): void {
      for (let next = due.pop(); next && next.at <= end && !isOver(); next = due.pop()) {
        now = next.at;
        next.happen();
      }
    },
  };
}

export type Timeline = ReturnType<typeof makeTimeline>;
