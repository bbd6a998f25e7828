import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import type { Replica } from './replica.ts';
import { lineOf, reset } from './tally.ts';
import type { World } from './world.ts';

/** A fault, and how to heal it. */
export interface Fault {
  name: string;
  /** Milliseconds that an answer may take during the fault. */
  bound: number;
  /** Seconds that it lasts; 0 for an instant fault. */
  seconds: number;
  /** Seconds within which everything must work again, if not the usual ones. */
  recovery?: number;
  strike(): unknown;
  heal?(): unknown;
}

/** Seconds after most faults within which everything must work again. */
const RECOVERY = 20;
/** How much more memory than before the fault a replica may use; MiB. */
const MEMORY_SLACK = 150;

/** Strikes under load, heals, and waits until everything works again. The tally has the observations. */
export async function endure(world: World, fault: Fault): Promise<void> {
  reset(world.tally);
  world.balancer.bound = fault.bound;
  await fault.strike();
  await sleep(fault.seconds * 1000);
  await fault.heal?.();
  await world.recovered(fault.recovery ?? RECOVERY);
}

/** Runs a fault and checks the invariants; prints one line of observations. */
export async function strike(t: Test, world: World, fault: Fault): Promise<void> {
  const { tally, replicas } = world;
  const errorsBefore = replicas.map((replica) => internalErrors(replica).length);
  const before = replicas.map((replica) => replica.memory());
  await endure(world, fault);

  t.comment(lineOf(fault.name, tally));
  t.ok(tally.requests > 0, 'there were requests');
  t.ok(tally.revokedTried > 0, 'revoked tokens were tried');
  t.equal(tally.signOuts, 0, 'no user was signed out');
  t.equal(tally.revokedAccepted, 0, 'no revoked token was accepted');
  t.strictSame(tally.problems.slice(0, 20), [], 'every answer was one of the contract, and in time');
  for (const [i, replica] of replicas.entries()) {
    t.strictSame(internalErrors(replica).slice(errorsBefore[i]), [], `replica ${i} logged no bug of its own`);
    t.equal(replica.service?.process.exitCode, null, `replica ${i} runs`);
    const grown = replica.memory() - (before[i] ?? 0);
    t.ok(grown < MEMORY_SLACK, `replica ${i} uses ${Math.round(grown)} MiB more than before`);
  }
}

/** A 500 does not name its cause; the log does. */
function internalErrors({ service }: Replica): string[] {
  const lines = service?.log().split('\n') ?? [];
  return lines.filter((line) => line.includes('"msg":"internal error"'));
}
