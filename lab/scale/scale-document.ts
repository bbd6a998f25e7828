import os from 'node:os';
import type { UserFigure } from './big-user.ts';
import type { Figure, IdleFigure } from './measure.ts';
import type { MixedFigure } from './mixed.ts';
import type { ProxiedFigure } from './proxied.ts';

export const PARTS = ['replicas', 'connections', 'sessions', 'cold', 'tokens', 'proxied', 'mixed'] as const;
export type Part = (typeof PARTS)[number];

/** Figures of a number of sessions in both stores. */
export interface SessionsFigure {
  sessions: number;
  /** All of them: what Redis grew by, and the tables with their indexes. */
  bytes: { redis: number; tokens: number; users: number; devices: number };
  figures: Figure[];
}

interface Measured<Of> {
  figures: Of[];
  machine: Machine;
}

/** docs/scaling.json: the parts that have been measured. */
export interface ScaleDocument {
  replicas?: Measured<Figure> & { idle: IdleFigure };
  connections?: Measured<Figure>;
  sessions?: Measured<SessionsFigure>;
  cold?: Measured<Figure>;
  tokens?: Measured<UserFigure>;
  proxied?: Measured<ProxiedFigure>;
  mixed?: Measured<MixedFigure>;
}

interface Machine {
  cpu: string;
  cores: number;
  node: string;
  /** The mean number of runnable threads in the last five minutes, the load generator's included. */
  load: number;
  at: string;
}

export function machineNow(): Machine {
  const cpus = os.cpus();
  return {
    cpu: cpus[0]?.model.trim() ?? 'unknown CPU',
    cores: cpus.length,
    node: process.version,
    load: os.loadavg()[1] ?? NaN,
    at: new Date().toISOString().slice(0, 10),
  };
}
