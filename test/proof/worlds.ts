import * as hold from './properties.ts';
import type { Property } from './properties.ts';
import { OWNER, OWNERS_OTHER_ADDRESS as OTHER, THIEF, type World } from './world.ts';

/** A world and its claimed properties. */
export interface Claim {
  name: string;
  world: World;
  properties: readonly Property[];
  /** Too large for `npm test`. */
  large?: true;
}

const CALM: World = {
  window: 10,
  step: 4,
  messages: 2,
  clients: [OWNER, OTHER],
  waits: true,
  drops: Infinity,
  duplicates: true,
  requestDelay: 1,
  answerDelay: 1,
  losses: false,
  clockBack: 0,
  thief: null,
  anyClient: false,
};
const CLOCK: World = { ...CALM, clients: [OWNER], step: 5, answerDelay: 0, clockBack: 1 };
const CLOSED: World = { ...CALM, window: 0, step: 3, duplicates: false };
const ALONE: Partial<World> = { messages: 1, duplicates: false };
/** Here requests may be delayed beyond the window, which does not affect what a thief can do. */
const THEFT: World = {
  ...CALM,
  step: 11,
  clients: [OWNER],
  thief: THIEF,
  duplicates: false,
  answerDelay: 0,
};
const AT_ONCE: Partial<World> = { requestDelay: 0, answerDelay: 0 };
const ANY_CLIENT: World = { ...CALM, anyClient: true, messages: 0 };

const owners = [hold.staysSignedIn, hold.getsAPair, hold.oldAccessEnds];
const overlapping = [...owners, hold.overlappingGetOnePair];
const thefts = [hold.notBothTheNewest, hold.foundOut, hold.endsAfterTheWindow];
const pairs = [hold.lostPairKills, hold.usedPairKills, hold.onlyTheLastIsGood, hold.oldAccessEnds];

/** The claims that hold. */
export const CLAIMS: readonly Claim[] = [
  { name: 'owner', world: CALM, properties: overlapping },
  { name: 'owner, addresses mean nothing', world: { ...CALM, clients: [''] }, properties: owners },
  {
    name: 'owner, three at once',
    world: { ...CALM, messages: 3, clients: [OWNER] },
    properties: overlapping,
  },
  {
    name: 'owner, three at once, two addresses',
    world: { ...CALM, messages: 3 },
    properties: overlapping,
    large: true,
  },
  { name: 'owner, losses, one at a time', world: { ...CALM, ...ALONE, losses: true }, properties: owners },
  {
    name: 'owner, losses, overlap, one dropped',
    world: { ...CALM, clients: [OWNER], duplicates: false, drops: 1, losses: true },
    properties: [hold.staysSignedIn, hold.oldAccessEnds],
    large: true,
  },
  { name: 'owner, clock 5 s back', world: CLOCK, properties: overlapping },
  { name: 'owner, window 0, one at a time', world: { ...CLOSED, ...ALONE }, properties: owners },
  {
    name: 'owner, window 0, one at a time, losses',
    world: { ...CLOSED, ...ALONE, losses: true },
    properties: owners,
  },
  {
    name: 'owner, window 0, one at a time, clock 5 s back',
    world: { ...CLOCK, ...ALONE, window: 0 },
    properties: owners,
  },
  {
    name: 'owner, window 0, overlap',
    world: CLOSED,
    properties: [hold.oldAccessEnds, hold.overlappingGetOnePair],
  },
  { name: 'tokens', world: ANY_CLIENT, properties: pairs },
  { name: 'tokens, window 0', world: { ...ANY_CLIENT, window: 0 }, properties: pairs },
  {
    name: 'tokens, losses',
    world: { ...ANY_CLIENT, clients: [OWNER], step: 11, losses: true },
    properties: pairs,
    large: true,
  },
  {
    name: 'tokens, window 0, losses',
    world: { ...ANY_CLIENT, clients: [OWNER], window: 0, step: 11, losses: true },
    properties: pairs,
    large: true,
  },
  { name: 'thief elsewhere', world: THEFT, properties: thefts, large: true },
  { name: 'thief elsewhere, window 0', world: { ...THEFT, window: 0 }, properties: thefts, large: true },
  {
    name: 'thief, addresses mean nothing',
    world: { ...THEFT, ...AT_ONCE, clients: [''], thief: '' },
    properties: thefts,
  },
  {
    name: 'thief elsewhere, losses',
    world: { ...THEFT, ...AT_ONCE, messages: 1, losses: true },
    properties: thefts,
    large: true,
  },
  {
    name: 'thief elsewhere, losses, nothing waits',
    world: { ...THEFT, ...AT_ONCE, messages: 1, waits: false, losses: true },
    properties: thefts,
  },
  {
    name: 'thief elsewhere, clock 5 s back',
    world: { ...THEFT, ...AT_ONCE, messages: 1, step: 5, clockBack: 1 },
    properties: thefts,
    large: true,
  },
  {
    name: "thief at the owner's address, window 0, nothing waits",
    world: { ...THEFT, window: 0, thief: OWNER, waits: false },
    properties: thefts,
  },
];

/** The documented limits: worlds in which a property does not hold. */
export const LIMITS: readonly Claim[] = [
  {
    name: 'delays of answer and request together beyond the window',
    world: { ...CALM, requestDelay: 2 },
    properties: [hold.staysSignedIn],
  },
  {
    name: 'losses, overlap, drops',
    world: { ...CALM, clients: [OWNER], losses: true },
    properties: [hold.staysSignedIn],
  },
  { name: 'window 0, overlap', world: CLOSED, properties: [hold.staysSignedIn] },
  {
    name: 'clock back further than the window',
    world: { ...CALM, clockBack: 3 },
    properties: [hold.staysSignedIn],
  },
  {
    name: "thief at the owner's address, inside the window",
    world: { ...THEFT, thief: OWNER },
    properties: [hold.notBothTheNewest, hold.foundOut],
  },
  {
    name: "thief at the owner's address, window 0, overlap",
    world: { ...THEFT, window: 0, thief: OWNER },
    properties: [hold.notBothTheNewest, hold.foundOut],
  },
  { name: 'stolen access token', world: THEFT, properties: [hold.accessIsOfNoUse] },
];
