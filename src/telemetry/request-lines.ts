/** Routes whose lines in the log LOG_REQUESTS chooses together. */
export type RequestGroup = 'verify' | 'introspection' | 'refresh' | 'documents' | 'other';

/** Which requests leave a line: `failures` are those with a status of 400 or more. */
export type LoggedRequests = 'all' | 'failures' | 'none';
