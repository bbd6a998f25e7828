import { isDeepStrictEqual } from 'node:util';
import { checkAccess, initialState, rotate } from '../../src/domain/sessions/rotation.ts';
import { rowOf, type Coverage } from './coverage.ts';
import type { History, Step } from './history.ts';
import { hashOf, type Presented, type Subjects } from './subjects.ts';
import { become, generationOf, keep, microsOf, pass, type World } from './world.ts';

/** The store's clock, in microseconds. */
export interface Clock {
  micros: number;
  /** Lets a microsecond pass; null if Redis keeps the time. */
  next(): number | null;
}

/**
 * Plays a history through the pure function, Redis and the memory store.
 * @throws Error if an answer or a resulting state differs.
 */
export async function play(
  history: History,
  subjects: Subjects,
  clock: Clock,
  coverage: Coverage,
): Promise<void> {
  const now = clock.micros;
  const state = initialState(now - 20_000_000, 'home');
  const world: World = {
    state,
    now,
    last: state,
    issued: [state.latest],
    earlierStates: [state],
    inFlight: [],
  };
  await subjects.replace(state, now);
  for (const step of history.steps) {
    world.now = clock.next() ?? world.now;
    const hasAsked = await take(step, world, history.window, subjects, coverage);
    if (hasAsked) compare(await subjects.read(), hashOf(world.state, subjects.known), 'the state in Redis');
  }
  await subjects.forget();
}

/** @returns whether a token was presented. */
async function take(
  step: Step,
  world: World,
  window: number,
  subjects: Subjects,
  coverage: Coverage,
): Promise<boolean> {
  switch (step.do) {
    case 'refresh': {
      const requests = step.requests.map(({ token, caller, elapsed }) => ({
        generation: generationOf(token, world),
        caller,
        elapsed: Math.max(0, microsOf(elapsed, world, window)),
        window,
      }));
      await present(requests, world, subjects, coverage);
      return true;
    }
    case 'send':
      world.inFlight.push({ generation: generationOf(step.token, world), caller: step.caller, waited: 0 });
      return false;
    case 'deliver': {
      const index = step.nth % Math.max(1, world.inFlight.length);
      const request = world.inFlight[index];
      if (!request) return false;
      if (!step.again) world.inFlight.splice(index, 1);
      const { generation, caller, waited } = request;
      const elapsed = step.inside ? waited : 0;
      await present([{ generation, caller, elapsed, window }], world, subjects, coverage);
      return true;
    }
    case 'use':
      await use(
        step.tokens.map((token) => generationOf(token, world)),
        world,
        subjects,
        coverage,
        window,
      );
      return true;
    case 'pass':
      await pass(microsOf(step.micros, world, window), world, subjects);
      return false;
    case 'lose': {
      const found = world.earlierStates[step.nth % world.earlierStates.length];
      if (found) await become(found, world, subjects);
      return false;
    }
  }
}

/** Presents refresh tokens at once. Redis runs them in the order of sending, and returns the time of each. */
async function present(requests: Presented[], world: World, subjects: Subjects, coverage: Coverage) {
  const { known, key } = subjects;
  const replies = await Promise.all(requests.map((request) => subjects.redis.rotate(key, request)));
  for (const [i, request] of requests.entries()) {
    const reply = replies[i];
    const now = reply && 'now' in reply ? reply.now : world.now;
    const presented = { ...request, now };
    let expected: object = { outcome: 'reused' };
    if (world.state) {
      const answer = rotate(world.state, presented);
      coverage.row(rowOf(world.state, presented, answer), request.window);
      coverage.edges(world.state, presented);
      expected = { ...answer, ...known, now };
      if (answer.outcome === 'issued') keep(answer.state, world);
      if (answer.outcome === 'reused') world.state = null;
    } else {
      coverage.row('reused again', request.window);
    }
    compare(reply, expected, `Redis, presented with ${JSON.stringify(presented)}`);
    const answer = await subjects.memoryAt(now).rotate(key, request);
    compare(answer, expected, `memory, presented with ${JSON.stringify(presented)}`);
    world.now = now;
  }
}

/** Presents access tokens at once. They share a call of Redis, which must check them in order, as if one by one. */
async function use(
  generations: number[],
  world: World,
  subjects: Subjects,
  coverage: Coverage,
  window: number,
) {
  const { known, key } = subjects;
  const replies = await Promise.all(
    generations.map((generation) => subjects.redis.checkAccess(key, generation)),
  );
  for (const [i, generation] of generations.entries()) {
    let expected: object = { outcome: 'reused' };
    if (world.state) {
      const { latest, confirmed } = world.state;
      const answer = checkAccess(world.state, generation);
      expected = { outcome: answer.outcome, ...known };
      if (answer.outcome === 'superseded') coverage.row('access: superseded', window);
      else if (generation > latest) coverage.row('access: good, ahead', window);
      else coverage.row(confirmed ? 'access: good again' : 'access: good, first use', window);
      if (answer.outcome === 'good') {
        if (generation === latest && !confirmed) expected = { ...expected, confirmed: answer.state };
        world.state = answer.state;
      }
    }
    compare(replies[i], expected, `Redis, access ${generation}`);
    const answer = await subjects.memoryAt(world.now).checkAccess(key, generation);
    compare(answer, expected, `memory, access ${generation}`);
  }
}

function compare(actual: unknown, expected: object, what: string): void {
  if (isDeepStrictEqual({ ...(actual as object) }, expected)) return;
  throw new Error(`${what}:\n  expected ${JSON.stringify(expected)}\n  answered ${JSON.stringify(actual)}`);
}
