import { pino } from 'pino';

/** For compositions whose log and audit trail no test reads. */
export const silentLogger = pino({ level: 'silent' });
export const silentOutput = { openAudit: () => () => undefined, dropped: () => 0 };
