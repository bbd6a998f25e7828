import { pino } from 'pino';

/** For compositions whose log and audit trail no test reads. */
export const silentLogger = pino({ level: 'silent' });
export const silentOutput = { writeAudit: () => 0, dropped: () => 0 };
