import os from 'node:os';
import { getHeapStatistics } from 'node:v8';

/** The container's memory limit, or the machine's memory; bytes. */
export function availableMemory(): number {
  return containerMemory() || os.totalmem();
}

/** The container's memory limit in bytes; 0 without one. */
export function containerMemory(): number {
  const limit = process.constrainedMemory();
  // Without a limit, some kernels report one that exceeds any machine.
  return limit < os.totalmem() ? limit : 0;
}

/** What the objects and texts of this process may take, in bytes: V8 ends a process that needs more. */
export function heapLimit(): number {
  return getHeapStatistics().heap_size_limit;
}
