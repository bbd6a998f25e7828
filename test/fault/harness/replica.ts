import { readdirSync, readFileSync } from 'node:fs';
import type { Test } from 'tap';
import type { Environment } from '../../../src/config/config.ts';
import { startService, type Launch, type Service } from '../../support/service.ts';
import type { Backend } from './balancer.ts';
import { eventually } from '../../support/until.ts';

/** One replica: a built process that can be killed and restarted, each time on another port. */
export interface Replica extends Backend {
  /** The running process; null while stopped. */
  service: Service | null;
  /** Ends it and waits. @returns its exit code; null if the signal ended it. */
  stop(signal: NodeJS.Signals): Promise<number | null>;
  start(): Promise<void>;
  /** The status of /health/ready. */
  readiness(): Promise<number>;
  /** Resident memory in MiB. */
  memory(): number;
  /** Open file descriptors: sockets, files, timers of the kernel. */
  handles(): number;
}

/** No process listens there, so connections are refused. */
const NOWHERE = 'http://127.0.0.1:1';

/** @param launch of another version */
export async function startReplica(t: Test, env: Environment, launch?: Launch): Promise<Replica> {
  const replica: Replica = {
    url: NOWHERE,
    inRotation: true,
    service: null,
    async stop(signal) {
      const code = (await replica.service?.stop(signal)) ?? null;
      replica.service = null;
      replica.url = NOWHERE;
      return code;
    },
    async start() {
      replica.service = await startService(t, env, launch);
      replica.url = replica.service.url;
    },
    async readiness() {
      const response = await fetch(`${replica.service?.opsUrl ?? NOWHERE}/health/ready`);
      await response.body?.cancel();
      return response.status;
    },
    handles: () => readdirSync(`/proc/${replica.service?.process.pid ?? 0}/fd`).length,
    memory() {
      const status = readFileSync(`/proc/${replica.service?.process.pid ?? 0}/status`, 'utf8');
      return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024;
    },
  };
  await replica.start();
  return replica;
}

/** Resolves once the replica reports ready. */
export async function isReady(replica: Replica, seconds = 20): Promise<void> {
  await eventually(seconds, async () => {
    const status = await replica.readiness();
    return status === 200 ? null : `/health/ready answers ${status}`;
  });
}
