/** Seconds, for the waits of clients and requests: from a verify to the longest timeout. */
export const LATENCY = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** Seconds, for a round trip to Redis, which should take far less than a millisecond. */
export const ROUND_TRIP = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
];
