import type { Device } from './device.ts';
import type { Operation } from './scenarios.ts';

/** All devices. Each does one thing at a time, and an arrival takes a free one. */
export interface Crowd {
  /** @param due by the devices' clock. If no device is free, the arrival waits, and its time counts. */
  arrive(operation: Operation, due: number): void;
  devices(): number;
  busy(): number;
  /** Arrivals that no device has begun. */
  waiting(): number;
  /** Resolves once no device is busy. Forgets the arrivals that still wait. */
  finish(): Promise<void>;
}

export interface CrowdOptions {
  devices: readonly Device[];
  /** A device of a user who signs up. */
  makeNewcomer: () => Device;
  /** From 0 to below 1. */
  random: () => number;
  /** Receives what a device throws: an answer that it cannot read, or a fault of the kit. */
  fail: (error: unknown) => void;
}

export function makeCrowd({ devices, makeNewcomer, random, fail }: CrowdOptions): Crowd {
  const signedIn = devices.filter((device) => device.isSignedIn());
  const signedOut = devices.filter((device) => !device.isSignedIn());
  const waiting: { operation: Operation; due: number }[] = [];
  const running = new Set<Promise<void>>();
  let count = devices.length;
  let isFinished = false;

  function takeFor(operation: Operation): Device | undefined {
    if (operation === 'signup') {
      count++;
      return makeNewcomer();
    }
    const [first, second] = operation === 'login' ? [signedOut, signedIn] : [signedIn, signedOut];
    return takeOne(first) ?? takeOne(second);
  }

  function takeOne(free: Device[]): Device | undefined {
    const at = Math.floor(random() * free.length);
    const [chosen, last] = [free[at], free.pop()];
    // The last one fills the gap.
    if (chosen && last && chosen !== last) free[at] = last;
    return chosen;
  }

  function begin(device: Device, operation: Operation, due: number): void {
    const work = device
      .run(operation, due)
      .catch(fail)
      .finally(() => {
        running.delete(work);
        const next = isFinished ? undefined : waiting.shift();
        if (next) begin(device, next.operation, next.due);
        else (device.isSignedIn() ? signedIn : signedOut).push(device);
      });
    running.add(work);
  }

  return {
    arrive(operation, due) {
      const device = takeFor(operation);
      if (device) begin(device, operation, due);
      else waiting.push({ operation, due });
    },
    devices: () => count,
    busy: () => running.size,
    waiting: () => waiting.length,
    async finish() {
      isFinished = true;
      while (running.size > 0) await Promise.all(running);
    },
  };
}

/** Draws operations by their weights. */
export function makeDraw(
  mix: Readonly<Partial<Record<Operation, number>>>,
  random: () => number,
): () => Operation {
  const parts = Object.entries(mix) as [Operation, number][];
  const sum = parts.reduce((total, [, weight]) => total + weight, 0);
  const last = parts.at(-1)?.[0] ?? 'verify';
  return () => {
    let left = random() * sum;
    for (const [operation, weight] of parts) if ((left -= weight) < 0) return operation;
    return last;
  };
}
