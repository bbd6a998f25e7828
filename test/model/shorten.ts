import type { History, Step } from './history.ts';

/** Removes the steps that a failure does not need. @param fails replays a history; returns why it fails, or null. */
export async function shorten(
  history: History,
  fails: (history: History) => Promise<string | null>,
): Promise<{ history: History; why: string | null }> {
  let shortest = history;
  let why = await fails(history);
  for (let again = why !== null; again;) {
    again = false;
    for (const steps of parts(shortest.steps)) {
      const reason = await fails({ ...shortest, steps });
      if (reason === null) continue;
      shortest = { ...shortest, steps };
      why = reason;
      again = true;
      break;
    }
  }
  return { history: shortest, why };
}

/** The histories without one step, or without one of several simultaneous requests or uses. */
function* parts(steps: Step[]): Generator<Step[]> {
  for (const [i, step] of steps.entries()) {
    yield steps.toSpliced(i, 1);
    if (step.do === 'refresh' && step.requests.length > 1) {
      for (const [j] of step.requests.entries())
        yield steps.toSpliced(i, 1, { ...step, requests: step.requests.toSpliced(j, 1) });
    }
    if (step.do === 'use' && step.tokens.length > 1) {
      for (const [j] of step.tokens.entries())
        yield steps.toSpliced(i, 1, { ...step, tokens: step.tokens.toSpliced(j, 1) });
    }
  }
}
