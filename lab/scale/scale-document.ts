import { existsSync, readFileSync } from 'node:fs';
import { thisMachine, type Machine } from '../table.ts';
import type { ChangeFigure } from './changes.ts';
import type { ConfirmedFigure } from './confirmed.ts';
import type { UserFigure } from './big-user.ts';
import type { Figure, IdleFigure } from './measure.ts';
import type { MixedFigure } from './mixed.ts';
import type { ProxiedFigure } from './proxied.ts';
import type { ReadersFigure } from './readers.ts';
import type { ReplayFigure } from './replay.ts';
import type { UsesFigure } from './uses.ts';

export const PARTS = [
  'replicas',
  'connections',
  'sessions',
  'new',
  'cold',
  'tokens',
  'changes',
  'readers',
  'confirmed',
  'uses',
  'replay',
  'proxied',
  'large',
  'mixed',
] as const;
export type Part = (typeof PARTS)[number];

/** Figures of a number of sessions in both stores. */
export interface SessionsFigure {
  sessions: number;
  /** All of them: what Redis grew by, and the tables with their indexes. */
  bytes: { redis: number; tokens: number; users: number; devices: number };
  figures: Figure[];
}

/** An installation with many users, of whom some are active. */
export interface LargeFigure {
  users: number;
  bytes: { tokens: number; users: number; devices: number };
  figures: Figure[];
}

interface Measured<Of> {
  figures: Of[];
  machine: LoadedMachine;
}

/** docs/scaling.json: the parts that have been measured. */
export interface ScaleDocument {
  replicas?: Measured<Figure> & { idle: IdleFigure };
  connections?: Measured<Figure>;
  sessions?: Measured<SessionsFigure>;
  new?: Measured<Figure>;
  cold?: Measured<Figure>;
  tokens?: Measured<UserFigure>;
  changes?: Measured<ChangeFigure>;
  readers?: Measured<ReadersFigure>;
  confirmed?: Measured<ConfirmedFigure>;
  uses?: Measured<UsesFigure>;
  replay?: Measured<ReplayFigure>;
  proxied?: Measured<ProxiedFigure>;
  large?: Measured<LargeFigure>;
  mixed?: Measured<MixedFigure>;
}

interface LoadedMachine extends Machine {
  /** The load average before the run. Documents of 1.0.0 hold that of the run itself, the load generator's included. */
  load: number;
  at: string;
}

export function machineNow(load: number): LoadedMachine {
  return { ...thisMachine(), load, at: new Date().toISOString().slice(0, 10) };
}

/** In docs/. */
export const FIGURES = 'scaling.json';
const COMMITTED = new URL(`../../../docs/${FIGURES}`, import.meta.url).pathname;

/** The committed figures of every part that has been measured. */
export function committedFigures(): ScaleDocument {
  return existsSync(COMMITTED) ? (JSON.parse(readFileSync(COMMITTED, 'utf8')) as ScaleDocument) : {};
}
