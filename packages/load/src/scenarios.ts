import type { Point } from './schedule.ts';

/** What a device does at an arrival. */
export type Operation = 'signup' | 'login' | 'refresh' | 'verify' | 'logout';

/** Every operation that the report lists. `ended` presents a token that has ended. */
export const OPERATIONS = ['signup', 'login', 'refresh', 'verify', 'logout', 'ended'] as const;

export interface Scenario {
  /** What it models, in one sentence. */
  models: string;
  /** Devices, each of its own user. */
  users: number;
  /** Arrivals a second at the peak. */
  rate: number;
  seconds: number;
  /** Lines between these points: the rate over time. */
  shape: readonly Point[];
  /** Weights of the operations. */
  mix: Readonly<Partial<Record<Operation, number>>>;
  /** The share of devices that hold a session at the start. */
  signedIn: number;
}

const STEADY: readonly Point[] = [
  { at: 0, level: 1 },
  { at: 1, level: 1 },
];

export const SCENARIOS = {
  'login-storm': {
    models: 'Monday at nine: within minutes, all users open the app and log in with a password.',
    users: 5000,
    rate: 10,
    seconds: 60,
    shape: [
      { at: 0, level: 0.1 },
      { at: 0.2, level: 1 },
      { at: 0.7, level: 1 },
      { at: 1, level: 0.1 },
    ],
    mix: { login: 40, verify: 55, logout: 5 },
    signedIn: 0,
  },
  'steady-refresh': {
    models: 'A quiet hour: devices in use refresh as their access tokens run out.',
    users: 2000,
    rate: 200,
    seconds: 60,
    shape: STEADY,
    mix: { refresh: 1 },
    signedIn: 1,
  },
  'verify-heavy': {
    models: 'A busy API: a proxy asks about nearly every request, and a few devices refresh.',
    users: 2000,
    rate: 1000,
    seconds: 60,
    shape: STEADY,
    mix: { verify: 96, refresh: 4 },
    signedIn: 1,
  },
  'signup-burst': {
    models: 'A mention on television: new users sign up at once, and use what they signed up for.',
    users: 100,
    rate: 20,
    seconds: 60,
    shape: [
      { at: 0, level: 0 },
      { at: 0.1, level: 1 },
      { at: 0.3, level: 1 },
      { at: 1, level: 0.1 },
    ],
    mix: { signup: 2, verify: 7, refresh: 1 },
    signedIn: 1,
  },
  'mixed-day': {
    models: 'A whole day in short: night, morning peak, lunch, evening peak, with all operations.',
    users: 2000,
    rate: 150,
    seconds: 60,
    shape: [
      { at: 0, level: 0.1 },
      { at: 0.25, level: 0.1 },
      { at: 0.4, level: 1 },
      { at: 0.55, level: 0.6 },
      { at: 0.8, level: 0.9 },
      { at: 1, level: 0.2 },
    ],
    mix: { verify: 800, refresh: 170, login: 13, logout: 12, signup: 5 },
    signedIn: 0.9,
  },
} as const satisfies Record<string, Scenario>;

/** It has no schedule: its arrivals are the devices' own retries (herd.ts). */
export const HERD = {
  models: 'PostgreSQL is down, then up: N devices that were all refused come back at once; then 2N and 4N.',
  users: 1000,
  seconds: 5,
  /** Each device has one of its own: the queue is at the service, not in the tester. */
  connections: 10_000,
} as const;

export type ScenarioName = keyof typeof SCENARIOS | 'herd';
export const SCENARIO_NAMES = [...Object.keys(SCENARIOS), 'herd'] as readonly ScenarioName[];
